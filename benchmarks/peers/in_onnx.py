"""ONNX Runtime: the workloads as ONNX graphs, weights as initializers."""

from __future__ import annotations

import numpy as np

from contender import Contender
from workloads import D_HEADS, D_SLOTS, D_WIDTH, EPS, HEADS, SEQUENCE, WIDTH


class Builder:
    """Calling it with an op's name and inputs adds a node and gives the name of its result."""

    def __init__(self, workload, inputs):
        from onnx import helper, numpy_helper
        self.helper, self.numpy_helper = helper, numpy_helper
        self.nodes, self.constants = [], []
        self.inputs = {k: v for k, v in inputs.items() if k not in workload.weights}
        self.names = {k: k if k in self.inputs else self.constant(v) for k, v in inputs.items()}

    def constant(self, value, dtype=np.float32):
        name = f"c{len(self.constants)}"
        array = np.ascontiguousarray(np.asarray(value, dtype))
        self.constants.append(self.numpy_helper.from_array(array, name))
        return name

    def ints(self, *values):
        return self.constant(values, np.int64)

    def __call__(self, op, *args, results=1, **attrs):
        names = [f"t{len(self.nodes)}_{i}" for i in range(results)]
        self.nodes.append(self.helper.make_node(op, args, names, **attrs))
        return names if results > 1 else names[0]

    def model(self, result):
        h = self.helper
        infos = [h.make_tensor_value_info(k, h.np_dtype_to_tensor_dtype(v.dtype), v.shape)
                 for k, v in self.inputs.items()]
        out = h.make_tensor_value_info(result, h.np_dtype_to_tensor_dtype(np.dtype("f4")), None)
        graph = h.make_graph(self.nodes, "workload", infos, [out], self.constants)
        return h.make_model(graph, opset_imports=[h.make_opsetid("", 23)], ir_version=10)


class OnnxRuntime(Contender):
    name = "onnxruntime"
    needs = ("onnxruntime", "onnx")

    def build(self, workload, inputs):
        import onnxruntime
        g = Builder(workload, inputs)
        model = g.model(getattr(self, workload.name)(g, *g.names.values()))
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
        session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                               providers=["CPUExecutionProvider"])
        given = g.inputs  # and nothing else of the builder, which holds the weights
        return lambda: session.run(None, given)

    def ew_gelu(self, g, x, a, b):
        return g("Sub", g("Gelu", g("Add", g("Mul", x, a), b), approximate="tanh"), x)

    def ew_gelu_erf(self, g, x, a, b):
        return g("Sub", g("Gelu", g("Add", g("Mul", x, a), b)), x)

    def softmax(self, g, x):
        return g("Softmax", x, axis=-1)

    def _norm(self, g, x, scale, shift):
        return g("LayerNormalization", x, scale, shift, axis=-1, epsilon=EPS)

    def layernorm(self, g, x, r, scale, shift):
        return self._norm(g, g("Add", x, r), scale, shift)

    def rmsnorm(self, g, x, scale):
        return g("RMSNormalization", x, scale, axis=-1, epsilon=EPS)

    def matmul_1024(self, g, x, w):
        return g("MatMul", x, w)

    matmul_64 = matvec = matmul_1024

    def matvec_t(self, g, x, w):
        return g("Gemm", x, w, transB=1)

    def mlp(self, g, x, w1, b1, w2, b2):
        h = g("Gelu", g("Add", g("MatMul", x, w1), b1), approximate="tanh")
        return g("Add", g("MatMul", h, w2), b2)

    def attention(self, g, q, k, v):
        return g("Attention", q, k, v, is_causal=1)

    def encoder(self, g, x, wqkv, bqkv, wo, bo, g1, n1, w1, b1, w2, b2, g2, n2):
        parts = g("Reshape", g("Add", g("MatMul", x, wqkv), bqkv),
                  g.ints(1, SEQUENCE, 3, HEADS, WIDTH // HEADS))
        parts = g("Transpose", parts, perm=[2, 0, 3, 1, 4])
        q, k, v = (g("Squeeze", t, g.ints(0))
                   for t in g("Split", parts, results=3, axis=0, num_outputs=3))
        o = g("Transpose", g("Attention", q, k, v), perm=[0, 2, 1, 3])
        o = g("Add", g("MatMul", g("Reshape", o, g.ints(1, SEQUENCE, WIDTH)), wo), bo)
        x = self._norm(g, g("Add", x, o), g1, n1)
        return self._norm(g, g("Add", x, self.mlp(g, x, w1, b1, w2, b2)), g2, n2)

    def conv3x3(self, g, x, w):
        return g("Conv", x, w, pads=[1, 1, 1, 1])

    def resblock(self, g, x, w1, g1, b1, m1, v1, w2, g2, b2, m2, v2):
        h = g("BatchNormalization", self.conv3x3(g, x, w1), g1, b1, m1, v1, epsilon=EPS)
        h = self.conv3x3(g, g("Relu", h), w2)
        return g("Relu", g("Add", g("BatchNormalization", h, g2, b2, m2, v2, epsilon=EPS), x))

    def decode(self, g, x, kc, vc, cos, sin, n1, wqkv, wo, n2, wg, wu, wd):
        def turned(t):
            a, b = g("Split", t, results=2, axis=1, num_outputs=2)
            return g("Concat", g("Sub", g("Mul", a, cos), g("Mul", b, sin)),
                     g("Add", g("Mul", b, cos), g("Mul", a, sin)), axis=1)

        def kept(cache, new):  # ONNX has no state: the old positions and the new one
            old = g("Slice", cache, g.ints(0), g.ints(D_SLOTS - 1), g.ints(1))
            return g("Concat", old, g("Unsqueeze", new, g.ints(1)), axis=1)
        qkv = g("Reshape", g("MatMul", self.rmsnorm(g, x, n1), wqkv), g.ints(3, D_HEADS, 64))
        q, k, v = (g("Squeeze", t, g.ints(0))
                   for t in g("Split", qkv, results=3, axis=0, num_outputs=3))
        keys, values = kept(kc, turned(k)), kept(vc, v)
        s = g("MatMul", g("Unsqueeze", turned(q), g.ints(1)),
              g("Transpose", keys, perm=[0, 2, 1]))
        p = g("Softmax", g("Mul", s, g.constant(0.125)), axis=-1)
        o = g("Reshape", g("MatMul", p, values), g.ints(1, D_WIDTH))
        h = g("Add", x, g("MatMul", o, wo))
        m = self.rmsnorm(g, h, n2)
        gate = g("MatMul", m, wg)
        inner = g("Mul", g("Mul", gate, g("Sigmoid", gate)), g("MatMul", m, wu))
        return g("Add", h, g("MatMul", inner, wd))

    def tiny(self, g, x, y, z):
        return g("Mul", g("Add", x, y), z)
