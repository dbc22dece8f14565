"""Networks with random weights: torchvision's, transformers', those of examples/, and own."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch
from torch import nn

from examples.torch_networks import AudioClassifier, Detector
from tests.torch.networks import seeded
from tests.torch.vision import torchvision

SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
}  # fmt: skip
TEXT = SMALL | {"vocab_size": 100, "max_position_embeddings": 64}


@dataclass(frozen=True)
class Network:
    """A module and the arguments of a call."""

    module: nn.Module
    args: tuple[object, ...]

    def trained(self) -> nn.Module:
        """The module in evaluation mode; its batch norms have seen a batch."""
        norms = [m for m in self.module.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
        for norm in norms:
            norm.momentum = 1.0
        if norms:
            with torch.no_grad():
                self.module.train()(*(torch.cat([a, a.flip(-1) * 0.5]) for a in self.args))
        return self.module.eval()


def image(size: int = 64) -> torch.Tensor:
    return seeded(1, 3, size, size)


def tokens(length: int = 12) -> torch.Tensor:
    return torch.randint(0, 100, (1, length), generator=torch.Generator().manual_seed(1))


def vision(name: str, size: int = 64, **arguments: object) -> Callable[[], Network]:
    """A classifier or a segmentation network of torchvision."""

    def build() -> Network:
        models = torchvision().models
        return Network(models.get_model(name, weights=None, **arguments), (image(size),))

    return build


def segmentation(name: str) -> Callable[[], Network]:
    return vision(name, 64, weights_backbone=None, num_classes=5)


def hugging_face() -> ModuleType:
    """The package transformers, which imports torchvision for some models if it is there."""
    if find_spec("torchvision") is not None:
        torchvision()
    return pytest.importorskip("transformers", reason="transformers is not installed")


def transformer(
    name: str, *args: Callable[[], torch.Tensor], **config: object
) -> Callable[[], Network]:
    """A model of transformers by its configuration, called with these tensors."""

    def build() -> Network:
        transformers = hugging_face()
        model_class = getattr(transformers, name)
        settings = model_class.config_class(**config)
        settings._attn_implementation = "eager"
        return Network(model_class(settings), tuple(make() for make in args))

    return build


class Tagger(nn.Module):
    """A tag for each token, by a recurrent network in both directions."""

    def __init__(self, recurrent: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(100, 16)
        self.recurrent = recurrent(16, 24, batch_first=True, bidirectional=True)
        self.tags = nn.Linear(48, 7)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.tags(self.recurrent(self.embedding(words))[0])


class DecoderStep(nn.Module):
    """One token of a GPT-2 with the keys and values of those before it."""

    def __init__(self) -> None:
        super().__init__()
        transformers = hugging_face()
        config = transformers.GPT2Config(
            vocab_size=100, n_positions=64, n_embd=32, n_layer=2, n_head=4
        )
        config._attn_implementation = "eager"
        self.cache, self.model = transformers.DynamicCache, transformers.GPT2LMHeadModel(config)

    def forward(
        self, token: torch.Tensor, past: list[tuple[torch.Tensor, torch.Tensor]]
    ) -> tuple[torch.Tensor, list[tuple[torch.Tensor, torch.Tensor]]]:
        cache = self.cache()
        for i, (keys, values) in enumerate(past):
            cache.update(keys, values, i)
        out = self.model(input_ids=token, past_key_values=cache, use_cache=True)
        return out.logits, [(layer.keys, layer.values) for layer in cache.layers]


def decoder_step() -> Network:
    past = [(seeded(1, 4, 5, 8, seed=i), seeded(1, 4, 5, 8, seed=i + 9)) for i in range(2)]
    return Network(DecoderStep(), (tokens(1), past))


def detector() -> Network:
    torchvision()  # brings the operator of non-maximum suppression
    return Network(Detector(), (image(),))


def encoder_layer() -> Network:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    return Network(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (seeded(1, 9, 32),))


NETWORKS: dict[str, Callable[[], Network]] = {
    "MobileNetV2": vision("mobilenet_v2"),
    "MobileNetV3": vision("mobilenet_v3_small"),
    "ShuffleNetV2": vision("shufflenet_v2_x0_5"),
    "SqueezeNet": vision("squeezenet1_1"),
    "MnasNet": vision("mnasnet0_5"),
    "EfficientNet": vision("efficientnet_b0"),
    "ResNet": vision("resnet18"),
    "RegNet": vision("regnet_y_400mf"),
    "DenseNet": vision("densenet121"),
    "ConvNeXt": vision("convnext_tiny"),
    "Swin": vision("swin_t"),
    "LRASPP": segmentation("lraspp_mobilenet_v3_large"),
    "DeepLabV3": segmentation("deeplabv3_mobilenet_v3_large"),
    "detector with NMS": detector,
    "BERT": transformer("BertModel", tokens, **TEXT),
    "DistilBERT": transformer(
        "DistilBertModel", tokens, dim=32, n_layers=2, n_heads=4, hidden_dim=64, vocab_size=100
    ),
    "ALBERT": transformer("AlbertModel", tokens, embedding_size=16, **TEXT),
    "RoBERTa": transformer("RobertaModel", tokens, **TEXT),
    "ELECTRA": transformer("ElectraForTokenClassification", tokens, embedding_size=16, **TEXT),
    "SqueezeBERT": transformer("SqueezeBertModel", tokens, embedding_size=32, **TEXT),
    "T5 encoder": transformer(
        "T5EncoderModel", tokens, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4,
        vocab_size=100,
    ),
    "GPT-2": decoder_step,
    "ViT": transformer("ViTModel", lambda: image(32), image_size=32, patch_size=8, **SMALL),
    "MobileViT": transformer(
        "MobileViTModel", lambda: image(64), image_size=64, hidden_sizes=[16, 24, 32],
        neck_hidden_sizes=[8, 8, 16, 16, 24, 32, 64],
    ),
    "SegFormer": transformer(
        "SegformerForSemanticSegmentation", lambda: image(64), hidden_sizes=[8, 16, 24, 32],
        decoder_hidden_size=32, depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 3, 4],
    ),
    "YOLOS": transformer(
        "YolosForObjectDetection", lambda: image(32), image_size=[32, 32], patch_size=8,
        num_detection_tokens=5, **SMALL,
    ),
    "Wav2Vec2": transformer(
        "Wav2Vec2Model", lambda: seeded(1, 1600), conv_dim=[16, 16], conv_kernel=[10, 3],
        conv_stride=[5, 2], num_feat_extract_layers=2, num_conv_pos_embedding_groups=2,
        num_conv_pos_embeddings=16, **SMALL,
    ),
    "AST": transformer(
        "ASTModel", lambda: seeded(1, 64, 32), num_mel_bins=32, max_length=64, **SMALL
    ),
    "audio classifier": lambda: Network(AudioClassifier(), (seeded(1, 1, 8000),)),
    "transformer encoder": encoder_layer,
    "LSTM tagger": lambda: Network(Tagger(nn.LSTM), (tokens(),)),
    "GRU tagger": lambda: Network(Tagger(nn.GRU), (tokens(),)),
}  # fmt: skip
