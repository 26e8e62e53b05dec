"""GENESIS-v2 (Engelcke, Parker Jones and Posner, 2021): U-Net → masks by stick breaking → latents → pictures.

Masks grow around randomly chosen pixels in a learned embedding of colours; what each covers becomes a latent, whose
prior depends on the latents before it; every latent is decoded to an image and a mask. A variational
autoencoder: the loss is the negative log-likelihood of a mixture plus the KL divergence, weighed by GECO.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from cocanet.config.baselines import NORM_GROUPS, GecoConfig, GenesisV2Config, Kernel
from cocanet.layers.precision import full_precision
from cocanet.models.baselines.parts import EVALUATION_SEED, coordinates
from cocanet.models.model import ObjectModel, check_size
from cocanet.models.output import Output

BOTTOM = 4
"""Cells a side at the bottom of the U-Net."""
BOTTLENECK = 128
DOUBLINGS = 4
"""How often the decoder doubles its grid: an image is sixteen times as wide."""
LIMITS = (0.01, 0.99)
"""What a pixel gives to a mask of what it has left."""
GECO_PIXELS = 64**2
"""Pixels of the images that GECO's step is given for."""


class UNet(nn.Module):
    """Down to 4×4 cells by dropping every second row and column, and up again beside what each scale had."""

    def __init__(self, side: int, channels: int) -> None:
        super().__init__()
        blocks = side.bit_length() - 2
        down = [channels] * (blocks - 3) + [2 * channels] * 3
        up = [2 * channels] * 2 + [channels] * (blocks - 2)
        self.down = nn.ModuleList(conv_block(*pair) for pair in pairwise([3, *down]))
        self.up = nn.ModuleList(
            conv_block(under + beside, out)
            for (under, out), beside in zip(pairwise([down[-1], *up]), reversed(down), strict=True)
        )
        cells = BOTTOM**2 * down[-1]
        widths = pairwise([cells, BOTTLENECK, BOTTLENECK, cells])
        self.bottom = nn.Sequential(*(layer for pair in widths for layer in (nn.Linear(*pair), nn.ReLU(inplace=True))))

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b c h w"]:
        x: Tensor = images
        beside: list[Tensor] = []
        for block in self.down:
            x = block(x if not beside else x[..., ::2, ::2])
            beside.append(x)
        x = self.bottom(x.flatten(1)).view_as(x)
        for block in self.up:
            skipped = beside.pop()
            if x.shape[-1] != skipped.shape[-1]:
                x = F.interpolate(x, scale_factor=2.0, mode="nearest")
            x = block(torch.cat((x, skipped), 1))
        return x


def conv_block(inputs: int, outputs: int) -> nn.Sequential:
    """A 3×3 convolution, normalised and rectified."""
    convolution = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    return nn.Sequential(convolution, nn.GroupNorm(NORM_GROUPS, outputs), nn.ReLU(inplace=True))


class InstanceColouring(nn.Module):
    """Colours every pixel by where it is and, as far as the gate has opened, by what it looks like; masks follow."""

    position: Tensor

    def __init__(self, config: GenesisV2Config) -> None:
        super().__init__()
        self.slots, self.kernel = config.slots, config.kernel
        self.head = nn.Sequential(
            conv_block(config.features, config.features), nn.Conv2d(config.features, config.colours, 1)
        )
        self.gate = nn.Parameter(torch.zeros(()))
        self.log_width = nn.Parameter(torch.tensor(math.log(first_width(config.kernel, config.slots))))
        place = coordinates(*config.image_size).flatten(1)
        position = torch.cat((place.new_zeros(config.colours - 2, place.shape[1]), place))
        self.register_buffer("position", position, persistent=False)

    def forward(self, features: Float[Tensor, "b d h w"], scores: Float[Tensor, "b n"]) -> Float[Tensor, "b k n"]:
        """Logarithms of the masks over the pixels, row by row."""
        look = self.head(features).flatten(2)
        with full_precision(features):
            colours = self.gate * look.to(self.position.dtype) + self.position
            return break_sticks(colours, scores, self.log_width.exp(), self.slots, self.kernel)


def break_sticks(
    colours: Float[Tensor, "b c n"],
    scores: Float[Tensor, "b n"],
    width: Float[Tensor, ""],
    slots: int,
    kernel: Kernel = "gaussian",
) -> Float[Tensor, "b {slots} n"]:
    """Logarithms of masks that sum to 1: each takes a share of the scope around a seed, the last all that remains.

    A seed is the pixel with the largest product of its score and its scope. It is chosen without a gradient, which
    flows through its colour only.
    """
    scope = torch.zeros_like(scores)
    masks = []
    for _ in range(slots - 1):
        chosen = (scores * scope.detach().exp()).argmax(1)
        seed = colours.gather(2, chosen[:, None, None].expand(-1, colours.shape[1], 1))
        share = limited(likeness(colours, seed, width, kernel))
        masks.append(scope + share.log())
        scope = scope + (-share).log1p()
    return torch.stack([*masks, scope], 1)


def likeness(
    colours: Float[Tensor, "b c n"], seed: Float[Tensor, "b c 1"], width: Float[Tensor, ""], kernel: Kernel
) -> Float[Tensor, "b n"]:
    """How alike the pixels' colours are to that of a seed: 1 if they are the same, 0 far away."""
    offset = colours - seed
    if kernel == "laplacian":
        norm: Tensor = torch.linalg.vector_norm(offset, dim=1)
        return (-norm / width).exp()
    distance = offset.square().sum(1) / width
    return (-distance).exp() if kernel == "gaussian" else (1 - distance).relu()


def first_width(kernel: Kernel, slots: int) -> float:
    """The kernel's width before training."""
    if kernel == "epanechnikov":
        return 2 / slots
    return 1 / ((slots if kernel == "gaussian" else math.sqrt(slots)) * math.log(2))


def limited(share: Float[Tensor, "b n"]) -> Float[Tensor, "b n"]:
    """Shares clamped to `LIMITS`; the gradient passes as if they were not."""
    return share + (share.detach().clamp(*LIMITS) - share.detach())


class Gaussian(NamedTuple):
    """Normal distributions of the numbers in each slot, each on its own."""

    mean: Float[Tensor, "b k d"]
    deviation: Float[Tensor, "b k d"]

    def sample(self, noise: Float[Tensor, "#b k d"]) -> Float[Tensor, "b k d"]:
        """Move standard normal noise to where the distributions are."""
        return self.mean + self.deviation * noise

    def log_density(self, x: Float[Tensor, "b k d"]) -> Float[Tensor, "b k d"]:
        return -0.5 * ((x - self.mean) / self.deviation).square() - self.deviation.log() - 0.5 * math.log(2 * math.pi)


def divergence(posterior: Gaussian, prior: Gaussian, sample: Float[Tensor, "b k d"]) -> Float[Tensor, " b"]:
    """The KL divergence of an image's slots from their prior, estimated from one sample of the posterior."""
    return (posterior.log_density(sample) - prior.log_density(sample)).sum((1, 2))


class Posterior(nn.Module):
    """Turns what a mask covers into the distribution of a slot."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.conv = nn.Sequential(conv_block(dim, dim), nn.Conv2d(dim, 2 * dim, 1))
        self.head = nn.Sequential(
            nn.LayerNorm(2 * dim), nn.Linear(2 * dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, 2 * dim)
        )

    def forward(self, features: Float[Tensor, "b d h w"], masks: Float[Tensor, "b k n"]) -> Gaussian:
        pixels = self.conv(features).flatten(2)
        with full_precision(masks):
            total = masks @ pixels.to(masks.dtype).mT
            mean, spread = self.head(total / (masks.sum(2, keepdim=True) + 1e-5)).chunk(2, -1)
            return Gaussian(mean, F.softplus(spread + 0.5) + 1e-8)


class AutoregressivePrior(nn.Module):
    """A recurrent network reads the slots one by one and predicts the next; the first is a standard normal."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.reader = nn.LSTM(dim, 4 * dim, batch_first=True)
        self.head = nn.Linear(4 * dim, 2 * dim)

    def forward(self, slots: Float[Tensor, "b k d"]) -> Gaussian:
        states, _ = self.reader(slots[:, :-1])
        mean, spread = self.head(states).chunk(2, -1)
        unknown = torch.zeros_like(slots[:, :1])
        deviation = torch.cat((unknown + 1, (spread + 4).sigmoid() + 1e-4), 1)
        return Gaussian(torch.cat((unknown, mean.tanh()), 1), deviation)


class GenesisDecoder(nn.Module):
    """Each slot in every cell of a small grid, beside the cell's row and column; transposed convolutions double it."""

    position: Tensor

    def __init__(self, image_size: tuple[int, int], dim: int) -> None:
        super().__init__()
        height, width = (side // 2**DOUBLINGS for side in image_size)
        self.register_buffer("position", coordinates(height, width), persistent=False)
        layers: list[nn.Module] = []
        for inputs in [dim + 2] + [dim] * (DOUBLINGS - 1):
            layers += [
                nn.ConvTranspose2d(inputs, dim, 5, stride=2, padding=2, output_padding=1),
                nn.GroupNorm(NORM_GROUPS, dim),
                nn.ReLU(inplace=True),
            ]
        self.layers = nn.Sequential(*layers, nn.Conv2d(dim, 4, 1))

    def forward(self, slots: Float[Tensor, "b k d"]) -> Float[Tensor, "b k 4 h w"]:
        """Three channels of colour and one of the mask, before sigmoid and softmax."""
        every = slots.flatten(0, 1)
        grid = every[:, :, None, None].expand(-1, -1, *self.position.shape[1:])
        placed = torch.cat((grid, self.position.expand(len(every), -1, -1, -1)), 1)
        out: Tensor = self.layers(placed).unflatten(0, slots.shape[:2])
        return out


def mixture_error(
    images: Float[Tensor, "b 3 h w"],
    slot_images: Float[Tensor, "b k 3 h w"],
    log_masks: Float[Tensor, "b k h w"],
    deviation: float,
) -> Float[Tensor, " b"]:
    """Negative log-likelihood of an image: each colour of a pixel comes from one slot, as likely as its mask says."""
    squared = (slot_images - images.unsqueeze(1)).square()
    terms = log_masks.unsqueeze(2) - squared / (2 * deviation**2)
    constant = math.log(deviation * math.sqrt(2 * math.pi)) * images[0].numel()
    return constant - torch.logsumexp(terms, 1).sum((1, 2, 3))


class Geco(nn.Module):
    """The error plus β times the divergence; in training β grows while the mean error is below a goal, else shrinks."""

    beta: Float[Tensor, ""]
    average: Float[Tensor, ""]
    begun: Bool[Tensor, ""]

    def __init__(self, config: GecoConfig, image_size: tuple[int, int]) -> None:
        super().__init__()
        height, width = image_size
        self.config = config
        self.goal = config.goal * 3 * height * width
        self.step = config.step * GECO_PIXELS / (height * width)
        self.register_buffer("beta", torch.tensor(config.beta))
        self.register_buffer("average", torch.tensor(0.0))
        self.register_buffer("begun", torch.tensor(False))

    def forward(self, error: Float[Tensor, ""], divergence: Float[Tensor, ""]) -> Float[Tensor, ""]:
        # A copy: the gradient needs the β of this step, which is about to change in place.
        loss = error + self.beta.clone() * divergence
        if self.training:
            self.update(error.detach())
        return loss

    @torch.no_grad()
    def update(self, error: Float[Tensor, ""]) -> None:
        """Take a step's error into the average, which begins with the first, and move β in proportion to its lead."""
        average = torch.lerp(error, self.average, self.config.momentum)
        self.average.copy_(torch.where(self.begun, average, error))
        self.begun.fill_(True)
        lead = self.goal - self.average
        rate = torch.where(lead > 0, self.config.speed_up * self.step, self.step)
        self.beta.copy_((self.beta * (rate * lead).exp()).clamp(*self.config.beta_range))


@dataclass(frozen=True, kw_only=True)
class GenesisOutput(Output):
    """An output with the terms of the loss."""

    log_masks: Float[Tensor, "b k h w"]
    """Logarithms of the decoder's masks."""
    divergence: Float[Tensor, " b"]
    """KL divergence of each image's slots from their prior, in nats."""


class GenesisV2(ObjectModel):
    """Discovers objects in square images of one size, and reconstructs the images from them.

    Seeds and latents are drawn in evaluation too, but there every image gets the same draws.
    """

    scores: Tensor
    noise: Tensor

    def __init__(self, config: GenesisV2Config) -> None:
        super().__init__()
        self.config = config
        self.unet = UNet(config.image_size[0], config.features)
        self.colouring = InstanceColouring(config)
        self.posterior = Posterior(config.features)
        self.prior = AutoregressivePrior(config.features)
        self.decoder = GenesisDecoder(config.image_size, config.features)
        self.geco = Geco(config.geco, config.image_size)
        height, width = config.image_size
        fixed = torch.Generator().manual_seed(EVALUATION_SEED)
        self.register_buffer("scores", torch.rand(1, height * width, generator=fixed), persistent=False)
        self.register_buffer("noise", torch.randn(1, config.slots, config.features, generator=fixed), persistent=False)

    def forward(self, images: Float[Tensor, "b 3 h w"]) -> GenesisOutput:
        check_size(images, self.config.image_size)
        scores, noise = self._draw(len(images))
        features = self.unet(images)
        masks = self.colouring(features, scores).exp()
        posterior = self.posterior(features, masks)
        with full_precision(masks):
            slots = posterior.sample(noise)
            kl = divergence(posterior, self.prior(slots), slots)
        layers = self.decoder(slots).to(masks.dtype)
        slot_images, log_masks = layers[:, :, :3].sigmoid(), layers[:, :, 3].log_softmax(1)
        decoder_masks = log_masks.exp()
        return GenesisOutput(
            slots=slots,
            slot_images=slot_images,
            decoder_masks=decoder_masks,
            encoder_masks=masks.unflatten(2, self.config.image_size),
            in_use=torch.ones(slots.shape[:2], dtype=torch.bool, device=slots.device),
            reconstruction=(slot_images * decoder_masks.unsqueeze(2)).sum(1),
            log_masks=log_masks,
            divergence=kl,
        )

    def loss(self, output: Output, images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, ""]:
        """Negative log-likelihood plus β times the KL divergence, per image; in training it also moves β."""
        assert isinstance(output, GenesisOutput)
        error = mixture_error(images, output.slot_images, output.log_masks, self.config.pixel_deviation)
        loss: Tensor = self.geco(error.mean(), output.divergence.mean())
        return loss

    def _draw(self, batch: int) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b k d"]]:
        """All that is left to chance: scores that choose the seeds, and noise that places slots in their posterior."""
        scores, noise = self.scores.expand(batch, -1), self.noise.expand(batch, -1, -1)
        return (torch.rand_like(scores), torch.randn_like(noise)) if self.training else (scores, noise)


MODEL = GenesisV2
