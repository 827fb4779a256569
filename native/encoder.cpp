// Bindings of the encoder: shapes checked, weights packed once, GIL released while it runs.
#include "encoder.hpp"

#include <nanobind/nanobind.h>

#include <cstring>
#include <string>

#include "buffers.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace polyvec {
namespace {

std::vector<float> read_floats(nb::handle object, std::size_t count, const char *what) {
    const Buffer buffer(object, false);
    if (buffer.size() != 4 * count) throw nb::value_error((std::string(what) + " does not have its size").c_str());
    std::vector<float> values(count);
    if (count) std::memcpy(values.data(), buffer.data(), 4 * count);
    return values;
}

Linear read_linear(nb::handle weights, nb::handle bias, std::size_t outputs, std::size_t inputs) {
    const Buffer buffer(weights, false);
    if (buffer.size() != 4 * outputs * inputs) throw nb::value_error("weights do not have their size");
    if (reinterpret_cast<std::uintptr_t>(buffer.data()) % 4 != 0) throw nb::value_error("weights must be aligned");
    Linear linear;
    linear.bias = read_floats(bias, outputs, "a bias");
    linear.packed.resize(packed_bytes(outputs, inputs));
    pack_weights(reinterpret_cast<const float *>(buffer.data()), outputs, inputs, linear.packed.data());
    return linear;
}

Norm read_norm(nb::handle scale, nb::handle shift, std::size_t width) {
    return {read_floats(scale, width, "a scale"), read_floats(shift, width, "a shift")};
}

class BoundEncoder {
  public:
    BoundEncoder(std::size_t width, std::size_t heads, std::size_t inner, float epsilon, int activation, nb::handle scale, nb::handle shift) {
        if (!encoder_available()) throw nb::value_error("this machine has no AMX");
        const bool fits = heads && width && width % heads == 0 && width / heads % encoder_step == 0 && inner && inner % encoder_step == 0;
        if (!fits || width > (1u << 16) || inner > (1u << 18)) throw nb::value_error("sizes must be multiples of 32");
        if (activation < 0 || activation > 2) throw nb::value_error("unknown activation");
        encoder_.width = width;
        encoder_.heads = heads;
        encoder_.inner = inner;
        encoder_.epsilon = epsilon;
        encoder_.activation = static_cast<Activation>(activation);
        encoder_.embedded = read_norm(scale, shift, width);
    }

    // weight and bias of query + key + value, context, inner and outer; scale and shift of the norm after each pair.
    void add_layer(nb::list given) {
        if (nb::len(given) != 12) throw nb::value_error("a layer has twelve arrays");
        const std::size_t width = encoder_.width, inner = encoder_.inner;
        Layer layer;
        layer.attention = read_linear(given[0], given[1], 3 * width, width);
        layer.context = read_linear(given[2], given[3], width, width);
        layer.attended = read_norm(given[4], given[5], width);
        layer.inner = read_linear(given[6], given[7], inner, width);
        layer.outer = read_linear(given[8], given[9], width, inner);
        layer.closed = read_norm(given[10], given[11], width);
        encoder_.layers.push_back(std::move(layer));
    }

    // rows: float32 [tokens][width], replaced; starts: int64 [texts + 1].
    void run(nb::handle rows_object, nb::handle starts_object) const {
        const Buffer rows(rows_object, true), starts(starts_object, false);
        const std::size_t texts = starts.size() / 8;
        std::vector<std::int64_t> edges(texts);
        if (texts) std::memcpy(edges.data(), starts.data(), 8 * texts);
        bool fits = texts && edges[0] == 0;
        for (std::size_t i = 1; i < texts; ++i) fits = fits && edges[i] >= edges[i - 1];
        const std::size_t tokens = rows.size() / 4 / encoder_.width;
        fits = fits && static_cast<std::size_t>(edges.back()) == tokens && rows.size() == 4 * tokens * encoder_.width;
        if (!fits || reinterpret_cast<std::uintptr_t>(rows.data()) % 4 != 0) throw nb::value_error("starts do not cover the rows");
        const nb::gil_scoped_release released;
        if (tokens) run_encoder(encoder_, reinterpret_cast<float *>(rows.data()), edges.data(), texts - 1);
    }

  private:
    Encoder encoder_;
};

}  // namespace

void bind_encoder(nb::module_ &m) {
    m.def("encoder_available", &encoder_available);
    nb::class_<BoundEncoder>(m, "Encoder", "The layers of a BERT-like model, on matrix units.")
        .def(nb::init<std::size_t, std::size_t, std::size_t, float, int, nb::handle, nb::handle>(), "width"_a, "heads"_a,
             "inner"_a, "epsilon"_a, "activation"_a, "scale"_a, "shift"_a)
        .def("add_layer", &BoundEncoder::add_layer, "arrays"_a)
        .def("run", &BoundEncoder::run, "rows"_a, "starts"_a);
}

}  // namespace polyvec
