"""Writes the graphs that ``lazaretto.models`` runs: encoders without their weights, a few kilobytes each.

    python tools/make_encoder_graphs.py [folder]

Into ``minilm/``: all-MiniLM-L6-v2. ``encoder.onnx`` multiplies in full precision, ``encoder_int8.onnx`` in eight bits,
``encoder_even.onnx`` in eight bits after channels are made even (``encoder``); ``probe_int8.onnx`` is one product
in eight bits, to find out whether this processor does them exactly. Those that end in ``_unsigned`` do the same sums
with weights from 0 to 255, for processors on which signed ones overflow. Into ``deep/``: ``mpnet.onnx``
(all-mpnet-base-v2) and ``e5.onnx`` (multilingual-e5-small), in eight bits with a scale for every ``BLOCK`` numbers.
Weights are named and shaped here and given at run time.
Needs the package ``onnx``, which the product does not.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from onnx import TensorProto, helper

BLOCK = 128
FOLDER = Path(__file__).parents[1] / "src" / "lazaretto" / "models"


@dataclass(frozen=True)
class Shape:
    """The size of an encoder."""

    width: int = 384
    layers: int = 6
    heads: int = 12
    inner: int = 1536
    epsilon: float = 1e-12
    relative: bool = False
    """Whether attention adds a number for how far apart two tokens are."""


MPNET = Shape(768, 12, 12, 3072, 1e-5, relative=True)
E5 = Shape(layers=12)


class Graph:
    """Nodes, and the weights that are given at run time."""

    def __init__(
        self,
        shape: Shape = Shape(),  # noqa: B008
        *,
        int8: bool = False,
        blocks: bool = False,
        even: bool = False,
        unsigned: bool = False,
    ) -> None:
        """``even``: eight bits after channels are made even, and blocks where a layer narrows again."""
        self.shape, self.int8, self.blocks, self.even, self.unsigned = shape, int8, blocks, even, unsigned
        self.nodes: list[object] = []
        self.weights: list[TensorProto] = []

    def add(self, kind: str, inputs: list[str], outputs: list[str], **attributes: object) -> str:
        """One node; its first output."""
        self.nodes.append(helper.make_node(kind, inputs, outputs, **attributes))
        return outputs[0]

    def weight(self, name: str, *shape: int, kind: int = TensorProto.FLOAT) -> str:
        """A weight that comes later."""
        tensor = TensorProto(name=name, data_type=kind, dims=shape, data_location=TensorProto.EXTERNAL)
        place = tensor.external_data.add()
        place.key, place.value = "location", "given_at_run_time"
        self.weights.append(tensor)
        return name

    def linear(self, x: str, name: str, wide: int, narrow: int) -> str:
        """x @ weight + bias."""
        bias = self.weight(f"{name}.bias", narrow)
        evened = self.even and wide == self.shape.width
        if evened:
            x = self.add("Mul", [x, self.weight(f"{name}.even", wide)], [f"{name}.in"])
        if self.int8 or evened:
            kind = TensorProto.UINT8 if self.unsigned else TensorProto.INT8
            whole = self.weight(f"{name}.weight", wide, narrow, kind=kind)
            zero = self.weight(f"{name}.zero", narrow, kind=kind) if self.unsigned else ""
            inputs = [x, whole, self.weight(f"{name}.scale", narrow), zero, bias]
            return self.add("DynamicQuantizeMatMul", inputs, [f"{name}.out"], domain="com.microsoft")
        if self.blocks or self.even:
            whole = self.weight(f"{name}.weight", narrow, wide // BLOCK, BLOCK, kind=TensorProto.UINT8)
            inputs = [x, whole, self.weight(f"{name}.scale", narrow, wide // BLOCK), "", "", bias]
            sizes = {"K": wide, "N": narrow, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
            return self.add("MatMulNBits", inputs, [f"{name}.out"], domain="com.microsoft", **sizes)
        product = self.add("MatMul", [x, self.weight(f"{name}.weight", wide, narrow)], [f"{name}.product"])
        return self.add("Add", [product, bias], [f"{name}.out"])

    def norm(self, x: str, name: str, out: str = "") -> str:
        """Layer norm."""
        scale, shift = (self.weight(f"{name}.{part}", self.shape.width) for part in ("weight", "bias"))
        epsilon = self.shape.epsilon
        return self.add("LayerNormalization", [x, scale, shift], [out or f"{name}.out"], axis=-1, epsilon=epsilon)

    def write(self, path: Path, inputs: list[object], output: str, width: int) -> None:
        """The graph as a file."""
        out = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", "length", width])
        graph = helper.make_graph(self.nodes, path.stem, inputs, [out], self.weights)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def encoder(graph: Graph, path: Path) -> None:
    """Summed embeddings and who is seen in, token states out."""
    size = graph.shape
    relative = ["relative"] if size.relative else []
    x = graph.norm("embedded", "embeddings.LayerNorm")
    for n in range(size.layers):
        at = f"encoder.layer.{n}."
        joint = graph.linear(x, f"{at}attention.self.joint", size.width, 3 * size.width)
        parts = [f"{at}{part}" for part in ("query", "key", "value")]
        graph.add("Split", [joint], parts, axis=2, num_outputs=3)
        given = [*parts, "", "mask", *relative]
        seen = graph.add("MultiHeadAttention", given, [f"{at}seen"], domain="com.microsoft", num_heads=size.heads)
        gathered = graph.linear(seen, f"{at}attention.output.dense", size.width, size.width)
        x = graph.norm(graph.add("Add", [x, gathered], [f"{at}attended"]), f"{at}attention.output.LayerNorm")
        opened = graph.linear(x, f"{at}intermediate.dense", size.width, size.inner)
        # by tanh it takes half the time, and is off by less than rounding to eight bits is
        curve = {"approximate": "tanh"} if graph.blocks or graph.even else {}
        wide = graph.add("Gelu", [opened], [f"{at}gelu"], **curve)
        narrow = graph.linear(wide, f"{at}output.dense", size.inner, size.width)
        done = graph.add("Add", [x, narrow], [f"{at}summed"])
        x = graph.norm(done, f"{at}output.LayerNorm", out="states" if n == size.layers - 1 else "")
    shape = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info("embedded", TensorProto.FLOAT, [*shape, size.width]),
        helper.make_tensor_value_info("mask", TensorProto.INT32, shape),
    ]
    if size.relative:
        apart = [1, size.heads, "length", "length"]
        inputs.append(helper.make_tensor_value_info("relative", TensorProto.FLOAT, apart))
    graph.write(path, inputs, "states", size.width)


def probe(path: Path, unsigned: bool) -> None:
    """One product in eight bits."""
    graph = Graph(int8=True, unsigned=unsigned)
    out = graph.linear("embedded", "probe", 64, 16)
    inputs = [helper.make_tensor_value_info("embedded", TensorProto.FLOAT, ["batch", "length", 64])]
    graph.write(path, inputs, out, 16)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    for name in ("minilm", "deep"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    encoder(Graph(), folder / "minilm" / "encoder.onnx")
    for end, unsigned in (("", False), ("_unsigned", True)):
        encoder(Graph(int8=True, unsigned=unsigned), folder / "minilm" / f"encoder_int8{end}.onnx")
        encoder(Graph(even=True, unsigned=unsigned), folder / "minilm" / f"encoder_even{end}.onnx")
        probe(folder / "minilm" / f"probe_int8{end}.onnx", unsigned)
    encoder(Graph(MPNET, blocks=True), folder / "deep" / "mpnet.onnx")
    encoder(Graph(E5, blocks=True), folder / "deep" / "e5.onnx")


if __name__ == "__main__":
    main()
