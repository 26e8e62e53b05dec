import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own: the runtime checks of shapes, which tests run with, cannot be compiled.
PROGRAM = """
import torch, cocanet
from tests.tiny import small
from cocanet.models.model import reconstruction_loss

model, x = cocanet.build(small(), seed=0), torch.rand(2, 3, 8, 12)
results = []
# Captured whole, with its backward pass; without the C++ that torch would generate from it, which takes minutes.
for forward in (torch.compile(model, fullgraph=True, backend="aot_eager"), model):
    out = forward(x)
    model.zero_grad()
    reconstruction_loss(out, x).backward()
    results.append((out, {n: p.grad.clone() for n, p in model.named_parameters()}))
(ours, gradients), (expected, expected_gradients) = results
torch.testing.assert_close(ours.reconstruction, expected.reconstruction, atol=1e-4, rtol=1e-3)
torch.testing.assert_close(ours.encoder_masks, expected.encoder_masks, atol=1e-4, rtol=1e-3)
for name, gradient in expected_gradients.items():
    assert (gradients[name] - gradient).norm() <= 1e-3 * gradient.norm() + 1e-7, name
print("same")
"""


@pytest.mark.slow
def test_the_captured_graph_gives_the_same_outputs_and_gradients():
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "same", done.stderr[-2000:]
