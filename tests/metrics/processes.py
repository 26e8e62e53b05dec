"""Work of each of two processes that score their shares of the images."""

import torch
import torch.distributed as dist

from cocanet.metrics.scores import SegmentationScores
from cocanet.metrics.segmentation import ForegroundOverlap
from cocanet.models.output import Output


def scene(images: int, seed: int = 0, slots: int = 5) -> tuple[Output, torch.Tensor, torch.Tensor]:
    """Random scenes, some without foreground, and random masks."""
    rng = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 4, (images, 8, 8), generator=rng)
    labels[::3] = 0
    in_use = torch.rand(images, slots, generator=rng) > 0.2
    decoder_masks, encoder_masks = (torch.rand(images, slots, 8, 8, generator=rng).softmax(1) for _ in range(2))
    output = Output(
        slots=torch.zeros(images, slots, 1),
        slot_images=torch.zeros(images, slots, 3, 8, 8),
        decoder_masks=decoder_masks,
        encoder_masks=encoder_masks,
        in_use=in_use,
        reconstruction=torch.randn(images, 3, 8, 8, generator=rng),
    )
    return output, labels, torch.rand(images, 3, 8, 8, generator=rng)


def part(output: Output, rows: slice) -> Output:
    fields = ("slots", "slot_images", "decoder_masks", "encoder_masks", "in_use", "reconstruction")
    return Output(**{name: getattr(output, name)[rows] for name in fields})


def score(rank: int, folder: str, shares: list[slice]) -> None:
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=len(shares))
    output, labels, images = scene(10)
    rows = shares[rank]
    scores, overlap = SegmentationScores(background_labels=1), ForegroundOverlap()
    scores.update(part(output, rows), labels[rows], images[rows])
    overlap.update(output.encoder_masks[rows], labels[rows])
    torch.save(scores.compute() | overlap.compute(), f"{folder}/{rank}.pt")
    dist.destroy_process_group()
