"""Mask R-CNN: He, Gkioxari, Dollár and Girshick, "Mask R-CNN", ICCV 2017; the whole of its inference.

A ResNet-101 (`resnet`), a feature pyramid (`pyramid`: Lin et al., CVPR 2017), region proposals with anchors and
suppression (`proposals`: Ren et al., NeurIPS 2015), features of regions from the level of the pyramid that suits their
size, heads of classes and boxes, detections class by class, and a head of masks (`heads`). Numbers are those of
Matterport's implementation for COCO, which Owl's article measures: 64,047,096 trained parameters for 81 classes.

All shapes are static: there are always as many proposals and detections as there may be at most, and those that do not
exist are zero. A box is ``(left, top, right, bottom)``, in pixels of the image.
"""
