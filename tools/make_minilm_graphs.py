"""Writes the graphs that ``lazaretto.models.minilm`` runs: all-MiniLM-L6-v2 without its weights, a few kilobytes each.

    python tools/make_minilm_graphs.py [folder]

``encoder.onnx`` multiplies in full precision, ``encoder_int8.onnx`` in eight bits, ``encoder_blocks.onnx`` in eight
bits with a scale for every ``BLOCK`` numbers, ``probe_int8.onnx`` is one product in eight bits, to find out whether
this processor does them exactly. Weights are named and shaped here and given at run time. Needs the package ``onnx``,
which the product does not.
"""

from __future__ import annotations

import sys
from pathlib import Path

from onnx import TensorProto, helper

DIMENSION, LAYERS, HEADS, INNER = 384, 6, 12, 1536
BLOCK = 128
FOLDER = Path(__file__).parents[1] / "src" / "lazaretto" / "models" / "minilm"


class Graph:
    """Nodes, and the weights that are given at run time."""

    def __init__(self, *, int8: bool = False, blocks: bool = False) -> None:
        self.int8, self.blocks = int8, blocks
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
        if self.int8:
            whole = self.weight(f"{name}.weight", wide, narrow, kind=TensorProto.INT8)
            inputs = [x, whole, self.weight(f"{name}.scale", narrow), "", bias]
            return self.add("DynamicQuantizeMatMul", inputs, [f"{name}.out"], domain="com.microsoft")
        if self.blocks:
            whole = self.weight(f"{name}.weight", narrow, wide // BLOCK, BLOCK, kind=TensorProto.UINT8)
            inputs = [x, whole, self.weight(f"{name}.scale", narrow, wide // BLOCK), "", "", bias]
            sizes = {"K": wide, "N": narrow, "bits": 8, "block_size": BLOCK, "accuracy_level": 4}
            return self.add("MatMulNBits", inputs, [f"{name}.out"], domain="com.microsoft", **sizes)
        product = self.add("MatMul", [x, self.weight(f"{name}.weight", wide, narrow)], [f"{name}.product"])
        return self.add("Add", [product, bias], [f"{name}.out"])

    def norm(self, x: str, name: str, out: str = "") -> str:
        """Layer norm."""
        scale, shift = (self.weight(f"{name}.{part}", DIMENSION) for part in ("weight", "bias"))
        return self.add("LayerNormalization", [x, scale, shift], [out or f"{name}.out"], axis=-1, epsilon=1e-12)

    def write(self, path: Path, inputs: list[object], output: str, width: int) -> None:
        """The graph as a file."""
        out = helper.make_tensor_value_info(output, TensorProto.FLOAT, ["batch", "length", width])
        graph = helper.make_graph(self.nodes, path.stem, inputs, [out], self.weights)
        opsets = [helper.make_opsetid("", 20), helper.make_opsetid("com.microsoft", 1)]
        path.write_bytes(helper.make_model(graph, opset_imports=opsets, ir_version=9).SerializeToString())


def encoder(graph: Graph, path: Path) -> None:
    """Summed embeddings and who is seen in, token states out."""
    x = graph.norm("embedded", "embeddings.LayerNorm")
    for n in range(LAYERS):
        at = f"encoder.layer.{n}."
        joint = graph.linear(x, f"{at}attention.self.joint", DIMENSION, 3 * DIMENSION)
        parts = [f"{at}{part}" for part in ("query", "key", "value")]
        graph.add("Split", [joint], parts, axis=2, num_outputs=3)
        seen = graph.add(
            "MultiHeadAttention", [*parts, "", "mask"], [f"{at}seen"], domain="com.microsoft", num_heads=HEADS
        )
        gathered = graph.linear(seen, f"{at}attention.output.dense", DIMENSION, DIMENSION)
        x = graph.norm(graph.add("Add", [x, gathered], [f"{at}attended"]), f"{at}attention.output.LayerNorm")
        opened = graph.linear(x, f"{at}intermediate.dense", DIMENSION, INNER)
        # by tanh it takes half the time, and is off by less than rounding to eight bits is
        curve = {"approximate": "tanh"} if graph.blocks else {}
        wide = graph.add("Gelu", [opened], [f"{at}gelu"], **curve)
        narrow = graph.linear(wide, f"{at}output.dense", INNER, DIMENSION)
        done = graph.add("Add", [x, narrow], [f"{at}summed"])
        x = graph.norm(done, f"{at}output.LayerNorm", out="states" if n == LAYERS - 1 else "")
    shape = ["batch", "length"]
    inputs = [
        helper.make_tensor_value_info("embedded", TensorProto.FLOAT, [*shape, DIMENSION]),
        helper.make_tensor_value_info("mask", TensorProto.INT32, shape),
    ]
    graph.write(path, inputs, "states", DIMENSION)


def probe(path: Path) -> None:
    """One product in eight bits."""
    graph = Graph(int8=True)
    out = graph.linear("embedded", "probe", 64, 16)
    inputs = [helper.make_tensor_value_info("embedded", TensorProto.FLOAT, ["batch", "length", 64])]
    graph.write(path, inputs, out, 16)


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    encoder(Graph(), folder / "encoder.onnx")
    encoder(Graph(int8=True), folder / "encoder_int8.onnx")
    encoder(Graph(blocks=True), folder / "encoder_blocks.onnx")
    probe(folder / "probe_int8.onnx")


if __name__ == "__main__":
    main()
