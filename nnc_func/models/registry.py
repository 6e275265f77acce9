"""The networks of the zoo by name."""

from __future__ import annotations

from difflib import get_close_matches

from nnc_func.errors import OperatorError
from nnc_func.models.model import Model

IMAGE = (224, 224, 3)
TINY = {"shape": (32, 32, 3), "classes": 5}
HOME = "nnc_func.models"

MODELS = (
    Model(
        "lenet-5", "LeNet-5, with softmax and no sparse connections",
        "LeCun, Bottou, Bengio and Haffner, Gradient-based learning applied to document recognition, Proc. IEEE 1998",
        (28, 28, 1), 10, f"{HOME}.lenet:lenet", 61_706, small={"classes": 5},
    ),
    Model(
        "mnist", "A convolution, a pool and two dense layers for MNIST digits",
        "Wang and Zhao, Composing data analytical services in OCaml, examples/lazy_mnist.ml of Owl, 2018",
        (28, 28, 1), 10, f"{HOME}.mnist:mnist", 6_434_634, small={"shape": (12, 12, 1), "units": 32},
    ),
    *(
        Model(
            f"vgg-{depth}", f"VGG with {depth} layers",
            "Simonyan and Zisserman, Very deep convolutional networks for large-scale image recognition, ICLR 2015",
            IMAGE, 1000, f"{HOME}.vgg:vgg", count, options={"depth": depth},
            small=TINY | {"width": 4, "units": 16},
        )
        for depth, count in ((16, 138_357_544), (19, 143_667_240))
    ),
    *(
        Model(
            f"resnet-{depth}", f"ResNet with {depth} layers",
            "He, Zhang, Ren and Sun, Deep residual learning for image recognition, CVPR 2016",
            IMAGE, 1000, f"{HOME}.resnet:resnet", count, options={"depth": depth},
            small=TINY | {"width": 4, "blocks": (1, 2, 1, 1)},
        )
        for depth, count in ((18, 11_689_512), (50, 25_557_032))
    ),
)  # fmt: skip
BY_NAME = {model.name: model for model in MODELS}


def names() -> tuple[str, ...]:
    """The names of all networks, in the order of the registry.

    Examples
    --------
    >>> names()[:2]
    ('lenet-5', 'mnist')
    """
    return tuple(BY_NAME)


def get(name: str) -> Model:
    """The network of that name.

    Raises
    ------
    OperatorError
        There is none; it says which there are.

    Examples
    --------
    >>> get("lenet-5").parameters
    61706
    """
    if name not in BY_NAME:
        close = get_close_matches(name, BY_NAME, 3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(BY_NAME)}"
        raise OperatorError(f"the zoo has no model {name!r}; {hint}")
    return BY_NAME[name]
