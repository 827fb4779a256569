;; Integer kernels over int8 rows. Every row and the query start at multiples of 16 bytes only by luck, so loads are
;; unaligned; `dim` may be any number. Memory layout is the caller's business (see kernel.js).
;;
;;   dots(rows, query, count, dim, out)   out[i] = sum of rows[i][j] * query[j], query int16, out int32
;;   check(rows, count, dim, low, high)   index of the first row that holds -128 or whose sum of squares is outside
;;                                        [low, high]; -1 where there is none
;;
;; dim * 127 * 32767 may exceed 32 bits, but |dot| <= |query| * |row|, which for unit rows (norm about 127) and an
;; int16 query stays below 2^31 up to 262,144 dimensions. Partial sums wrap modulo 2^32, so only the total counts.
(module
  (import "env" "memory" (memory 1 65536))

  (func (export "dots")
    (param $row i32) (param $query i32) (param $count i32) (param $dim i32) (param $out i32)
    (local $end i32) (local $wide i32) (local $stop i32) (local $q i32) (local $tail i32)
    (local $a v128) (local $sum0 v128) (local $sum1 v128) (local $total i32)
    (local.set $end (i32.add (local.get $out) (i32.shl (local.get $count) (i32.const 2))))
    (local.set $wide (i32.and (local.get $dim) (i32.const -16)))
    (block $done
      (loop $rows
        (br_if $done (i32.ge_u (local.get $out) (local.get $end)))
        (local.set $q (local.get $query))
        (local.set $sum0 (v128.const i32x4 0 0 0 0))
        (local.set $sum1 (v128.const i32x4 0 0 0 0))
        (local.set $stop (i32.add (local.get $row) (local.get $wide)))
        (local.set $tail (i32.add (local.get $row) (local.get $dim)))
        (block $full
          (loop $sixteen
            (br_if $full (i32.ge_u (local.get $row) (local.get $stop)))
            (local.set $a (v128.load align=1 (local.get $row)))
            (local.set $sum0 (i32x4.add (local.get $sum0)
              (i32x4.dot_i16x8_s (i16x8.extend_low_i8x16_s (local.get $a)) (v128.load align=1 (local.get $q)))))
            (local.set $sum1 (i32x4.add (local.get $sum1)
              (i32x4.dot_i16x8_s (i16x8.extend_high_i8x16_s (local.get $a))
                                 (v128.load offset=16 align=1 (local.get $q)))))
            (local.set $row (i32.add (local.get $row) (i32.const 16)))
            (local.set $q (i32.add (local.get $q) (i32.const 32)))
            (br $sixteen)))
        (local.set $sum0 (i32x4.add (local.get $sum0) (local.get $sum1)))
        (local.set $total (i32.add
          (i32.add (i32x4.extract_lane 0 (local.get $sum0)) (i32x4.extract_lane 1 (local.get $sum0)))
          (i32.add (i32x4.extract_lane 2 (local.get $sum0)) (i32x4.extract_lane 3 (local.get $sum0)))))
        (block $over
          (loop $one
            (br_if $over (i32.ge_u (local.get $row) (local.get $tail)))
            (local.set $total (i32.add (local.get $total)
              (i32.mul (i32.load8_s (local.get $row)) (i32.load16_s align=1 (local.get $q)))))
            (local.set $row (i32.add (local.get $row) (i32.const 1)))
            (local.set $q (i32.add (local.get $q) (i32.const 2)))
            (br $one)))
        (i32.store align=1 (local.get $out) (local.get $total))
        (local.set $out (i32.add (local.get $out) (i32.const 4)))
        (br $rows))))

  (func (export "check")
    (param $row i32) (param $count i32) (param $dim i32) (param $low i32) (param $high i32) (result i32)
    (local $i i32) (local $stop i32) (local $tail i32) (local $wide i32) (local $value i32) (local $total i32)
    (local $a v128) (local $lower v128) (local $upper v128) (local $sum v128) (local $bad v128)
    (local.set $wide (i32.and (local.get $dim) (i32.const -16)))
    (block $done
      (loop $rows
        (br_if $done (i32.ge_u (local.get $i) (local.get $count)))
        (local.set $sum (v128.const i32x4 0 0 0 0))
        (local.set $bad (v128.const i32x4 0 0 0 0))
        (local.set $total (i32.const 0))
        (local.set $stop (i32.add (local.get $row) (local.get $wide)))
        (local.set $tail (i32.add (local.get $row) (local.get $dim)))
        (block $full
          (loop $sixteen
            (br_if $full (i32.ge_u (local.get $row) (local.get $stop)))
            (local.set $a (v128.load align=1 (local.get $row)))
            (local.set $bad (v128.or (local.get $bad)
              (i8x16.eq (local.get $a) (v128.const i8x16 -128 -128 -128 -128 -128 -128 -128 -128
                                                         -128 -128 -128 -128 -128 -128 -128 -128))))
            (local.set $lower (i16x8.extend_low_i8x16_s (local.get $a)))
            (local.set $upper (i16x8.extend_high_i8x16_s (local.get $a)))
            (local.set $sum (i32x4.add (local.get $sum)
              (i32x4.add (i32x4.dot_i16x8_s (local.get $lower) (local.get $lower))
                         (i32x4.dot_i16x8_s (local.get $upper) (local.get $upper)))))
            (local.set $row (i32.add (local.get $row) (i32.const 16)))
            (br $sixteen)))
        (local.set $total (i32.add
          (i32.add (i32x4.extract_lane 0 (local.get $sum)) (i32x4.extract_lane 1 (local.get $sum)))
          (i32.add (i32x4.extract_lane 2 (local.get $sum)) (i32x4.extract_lane 3 (local.get $sum)))))
        (block $over
          (loop $one
            (br_if $over (i32.ge_u (local.get $row) (local.get $tail)))
            (local.set $value (i32.load8_s (local.get $row)))
            (if (i32.eq (local.get $value) (i32.const -128)) (then (return (local.get $i))))
            (local.set $total (i32.add (local.get $total) (i32.mul (local.get $value) (local.get $value))))
            (local.set $row (i32.add (local.get $row) (i32.const 1)))
            (br $one)))
        (if (v128.any_true (local.get $bad)) (then (return (local.get $i))))
        (if (i32.or (i32.lt_s (local.get $total) (local.get $low)) (i32.gt_s (local.get $total) (local.get $high)))
          (then (return (local.get $i))))
        (local.set $i (i32.add (local.get $i) (i32.const 1)))
        (br $rows)))
    (i32.const -1))
)
