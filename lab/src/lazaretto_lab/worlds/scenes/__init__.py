"""Pictures of our own: drawn scenes with captions, and the messages written in some of them.

``draw_scene`` picks what is to be seen, ``render`` draws it, ``Scene.caption`` says it in words. Pictures need no
download, and there are far more distinct captions than any experiment uses.
"""

from lazaretto_lab.worlds.scenes.album import album_pool, folder_pool
from lazaretto_lab.worlds.scenes.render import png_bytes, render
from lazaretto_lab.worlds.scenes.scene import Scene, draw_scene, scene_pool

__all__ = ["Scene", "album_pool", "draw_scene", "folder_pool", "png_bytes", "render", "scene_pool"]
