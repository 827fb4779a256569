// The native module: one bind_* function a file of this folder.
#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace polyvec {

void bind_casts(nb::module_ &m);
void bind_centroids(nb::module_ &m);
void bind_dispatch(nb::module_ &m);
void bind_encoder(nb::module_ &m);
void bind_filecasts(nb::module_ &m);
void bind_fileio(nb::module_ &m);
void bind_filters(nb::module_ &m);
void bind_planes(nb::module_ &m);
void bind_product(nb::module_ &m);
void bind_rescores(nb::module_ &m);
void bind_rounding(nb::module_ &m);
void bind_rows(nb::module_ &m);
void bind_shadows(nb::module_ &m);
void bind_strings(nb::module_ &m);
void bind_subwords(nb::module_ &m);
void bind_text_rows(nb::module_ &m);
void bind_word_index(nb::module_ &m);

}  // namespace polyvec

NB_MODULE(_native, m) {
    // What a global still holds when Python ends (a vocabulary's index, say) is no leak worth a page of warnings.
    nb::set_leak_warnings(false);
    m.doc() = "polyvec's compiled kernels; polyvec.kernels picks between them and NumPy.";
    polyvec::bind_casts(m);
    polyvec::bind_centroids(m);
    polyvec::bind_dispatch(m);
    polyvec::bind_encoder(m);
    polyvec::bind_filecasts(m);
    polyvec::bind_fileio(m);
    polyvec::bind_filters(m);
    polyvec::bind_planes(m);
    polyvec::bind_product(m);
    polyvec::bind_rescores(m);
    polyvec::bind_rounding(m);
    polyvec::bind_rows(m);
    polyvec::bind_shadows(m);
    polyvec::bind_strings(m);
    polyvec::bind_subwords(m);
    polyvec::bind_text_rows(m);
    polyvec::bind_word_index(m);
}
