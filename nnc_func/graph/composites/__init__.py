"""The composites: every function of operators that has a name in the field, one entry each, by family.

A family is a module, which is imported when somebody asks for one of its composites.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from nnc_func.deferred import Registry

if TYPE_CHECKING:
    from nnc_func.graph.composite import Composite

FAMILIES = {
    "elementwise": "positive rsqrt deg2rad rad2deg fmod sinc xlogy nan_to_num fmax fmin heaviside isclose",
    "activations": "gelu silu mish log_sigmoid softsign elu selu celu leaky_relu prelu relu6 hard_sigmoid hard_swish "
    "hard_tanh square_relu",
    "losses": "l1_loss quadratic_loss l2_loss smooth_l1_loss hinge_loss squared_hinge_loss binary_cross_entropy "
    "sigmoid_binary_cross_entropy categorical_cross_entropy softmax_cross_entropy_loss kl_divergence",
    "distances": "square_distance",
    "convolution": "conv1d conv3d conv_transpose1d conv_transpose2d conv_transpose3d",
    "pooling": "max_pool1d average_pool1d max_pool3d average_pool3d global_max_pool global_average_pool",
    "indexing": "index index_update gather_nd scatter_nd put_along_axis",
    "searching": "count_nonzero nonzero argwhere extract top_k isin unique_values unique_counts unique_inverse "
    "unique_all",
    "linear_algebra": "matrix_transpose trace matrix_power matrix_rank lstsq vector_norm matrix_norm vecdot outer "
    "cross kron lyapunov",
    "fourier": "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift",
    "resizing": "resize",
    "resampling": "resample",
    "normalisation": "moments batch_norm layer_norm instance_norm group_norm rms_norm local_response_norm",
    "attention": "dropout embedding scaled_dot_product_attention",
    "recurrent": "rnn_cell rnn lstm_cell lstm gru_cell gru",
    "detection": "box_iou roi_align",
    "creation": "zeros ones empty zeros_like ones_like empty_like full_like linspace eye meshgrid tril triu diag",
    "manipulation": "moveaxis swapaxes flatten broadcast_arrays unstack rot90 roll repeat diff pad_mode",
    "statistics": "var std quantile median bincount histogram",
    "signals": "window quantize_linear dequantize_linear",
    "contraction": "einsum inner",
}  # modules of this package -> their composites

COMPOSITES: Mapping[str, Composite] = Registry(
    __name__, {name: f"{module}.{name}" for module, names in FAMILIES.items() for name in names.split()}
)
