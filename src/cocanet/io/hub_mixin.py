"""Models on the Hugging Face hub, by huggingface-hub's own mixin: cards, downloads, uploads (extra `hub`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cocanet.extras import extra
from cocanet.io.hub import CONFIG, WEIGHTS, write_pretrained
from cocanet.io.trained import Trained, open_model

extra("huggingface_hub", "hub", "the Hugging Face hub is reached")

from huggingface_hub import ModelHubMixin, snapshot_download  # noqa: E402

CARD = """---
{{ card_data }}
---

# {{ model_name }}

Finds objects in images without labels: COCA-Net (*Hierarchical Compact Clustering Attention (COCA) for Unsupervised
Object-Centric Learning*, CVPR 2025), trained with cocanet on {{ data }}.

```python
import cocanet

segmenter = cocanet.Segmenter.from_pretrained("user/name")
segmenter.segment("photo.jpg").objects
```
"""


class HubModel(
    ModelHubMixin,
    library_name="cocanet",
    pipeline_tag="image-segmentation",
    tags=["object-centric-learning", "unsupervised-segmentation"],
    model_card_template=CARD,
):
    """A trained model with the mixin's methods: `save_pretrained`, `from_pretrained`, `push_to_hub`."""

    def __init__(self, trained: Trained) -> None:
        self.trained = trained

    def _save_pretrained(self, save_directory: Path) -> None:
        trained = self.trained
        write_pretrained(save_directory, trained.model, trained.preset, trained.notes)

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        device: str = "cpu",
        **_: Any,
    ) -> HubModel:
        folder = Path(model_id)
        if not folder.is_dir():
            downloaded = snapshot_download(
                model_id,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
                allow_patterns=[CONFIG, WEIGHTS],
            )
            folder = Path(downloaded)
        return cls(open_model(folder, device))

    def generate_model_card(self, *args: Any, **kwargs: Any) -> Any:
        about = {"model_name": self.trained.preset.name, "data": self.trained.preset.data.name}
        return super().generate_model_card(*args, **{**about, **kwargs})
