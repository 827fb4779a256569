// The native module: one bind_* function a file of this folder.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

void bind_casts(nb::module_ &m);
void bind_encoder(nb::module_ &m);
void bind_filecasts(nb::module_ &m);
void bind_reads(nb::module_ &m);
void bind_planes(nb::module_ &m);
void bind_centroids(nb::module_ &m);
void bind_filters(nb::module_ &m);
void bind_rescores(nb::module_ &m);
void bind_shadows(nb::module_ &m);
void bind_rounding(nb::module_ &m);
void bind_prefixed(nb::module_ &m);
void bind_product(nb::module_ &m);
void bind_rows(nb::module_ &m);
void bind_strings(nb::module_ &m);
void bind_subwords(nb::module_ &m);

NB_MODULE(_native, m) {
    // What a global still holds when Python ends (a vocabulary's index, say) is no leak worth a page of warnings.
    nb::set_leak_warnings(false);
    m.doc() = "polyvec's compiled kernels; polyvec.kernels picks between them and NumPy.";
    bind_casts(m);
    bind_encoder(m);
    bind_filecasts(m);
    bind_reads(m);
    bind_planes(m);
    bind_centroids(m);
    bind_filters(m);
    bind_rescores(m);
    bind_shadows(m);
    bind_rounding(m);
    bind_prefixed(m);
    bind_product(m);
    bind_rows(m);
    bind_strings(m);
    bind_subwords(m);
}
