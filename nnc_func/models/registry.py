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
        "lenet-5", "LeNet-5 without sparse connections; scores are before softmax",
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
    Model(
        "inception-v3", "Inception v3; with the option auxiliary=True, its classifier in the middle too",
        "Szegedy, Vanhoucke, Ioffe, Shlens and Wojna, Rethinking the Inception architecture, CVPR 2016",
        (299, 299, 3), 1000, f"{HOME}.inception:inception", 23_834_568,
        small={"shape": (75, 75, 3), "classes": 5, "thinner": 16, "blocks": (1, 1, 1)},
    ),
    Model(
        "densenet-121", "DenseNet with 121 layers",
        "Huang, Liu, van der Maaten and Weinberger, Densely connected convolutional networks, CVPR 2017",
        IMAGE, 1000, f"{HOME}.densenet:densenet", 7_978_856, small=TINY | {"growth": 4, "blocks": (2, 2)},
    ),
    Model(
        "mobilenet-v2", "MobileNetV2",
        "Sandler, Howard, Zhu, Zhmoginov and Chen, Inverted residuals and linear bottlenecks, CVPR 2018",
        IMAGE, 1000, f"{HOME}.mobilenet:mobilenet", 3_504_872,
        small=TINY | {"width": 0.25, "stages": ((1, 16, 1, 1), (2, 24, 2, 2))},
    ),
    Model(
        "u-net", "U-Net without padding, for images of one channel",
        "Ronneberger, Fischer and Brox, U-Net, MICCAI 2015",
        (572, 572, 1), 2, f"{HOME}.unet:unet", 31_030_658, "segmentation",
        small={"shape": (44, 44, 1), "width": 2, "levels": 2},
    ),
    Model(
        "char-lstm", "A long short-term memory over 100 characters, unrolled",
        "Wang and Zhao, Composing data analytical services in OCaml, examples/lazy_lstm.ml of Owl, 2018",
        (100,), 65, f"{HOME}.char_lstm:char_lstm", 188_521, dtype="int64",
        small={"shape": (6,), "classes": 9, "features": 4, "hidden": 5, "units": 8},
    ),
    Model(
        "transformer-encoder", "BERT-base with a classifier of sequences of 128 tokens",
        "Vaswani et al., NeurIPS 2017; Devlin, Chang, Lee and Toutanova, BERT, NAACL 2019",
        (128,), 2, f"{HOME}.transformers:encoder", 109_483_778, dtype="int64", options={"vocabulary": 30_522},
        small={"shape": (6,), "vocabulary": 11, "positions": 8, "features": 8, "heads": 2, "layers": 2},
    ),
    Model(
        "gpt-2", "Twelve decoder blocks over 1,024 tokens, tokens and scores by one table",
        "Radford, Wu, Child, Luan, Amodei and Sutskever, Language models are unsupervised multitask learners, 2019",
        (1024,), 50_257, f"{HOME}.transformers:decoder", 124_439_808, "language", "int64",
        small={"shape": (6,), "classes": 11, "positions": 8, "features": 8, "heads": 2, "layers": 2},
    ),
    Model(
        "darts", "Twenty DARTS cells for CIFAR-10",
        "Liu, Simonyan and Yang, DARTS: differentiable architecture search, ICLR 2019",
        (32, 32, 3), 10, f"{HOME}.darts:darts", 3_349_342,
        small={"shape": (16, 16, 3), "channels": 4, "cells": 3},
    ),
    Model(
        "randomly-wired", "Three random graphs of 32 nodes",
        "Xie, Kirillov, Girshick and He, Exploring randomly wired neural networks, ICCV 2019",
        IMAGE, 1000, f"{HOME}.randomly_wired:randomly_wired", 5_614_757,
        small=TINY | {"channels": 6, "nodes": 6, "last": 12},
    ),
    *(
        Model(
            f"mask-rcnn{suffix}", f"Mask R-CNN with a ResNet-101 and a feature pyramid, for {side} × {side} pixels",
            "He, Gkioxari, Dollár and Girshick, Mask R-CNN, ICCV 2017, as in Matterport's implementation for COCO",
            (side, side, 3), 81, f"{HOME}.mask_rcnn.network:mask_rcnn", 64_047_096, "detection",
            options={"size": (side, side)},
            small={
                "shape": (64, 64, 3), "size": (64, 64), "classes": 4, "depth": 50, "blocks": (1, 1, 1, 1), "width": 4,
                "channels": 8, "units": 16, "limit": 40, "regions": 12, "detections": 5, "confidence": 0.0,
            },
        )
        for suffix, side in (("", 1024), ("-768", 768))
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
    if not isinstance(name, str) or name not in BY_NAME:
        close = get_close_matches(str(name), BY_NAME, 3)
        hint = f"did you mean {' or '.join(close)}?" if close else f"there are {', '.join(BY_NAME)}"
        raise OperatorError(f"the zoo has no model {name!r}; {hint}")
    return BY_NAME[name]
