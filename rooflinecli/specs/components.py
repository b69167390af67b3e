"""Components of a model outside attention and feed-forward, as YAML describes them, and the input of a tower."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from rooflinecli.specs.figure import OneLine, Spec, one_of


class ComponentSpec(Spec):
    """One step before the layers, after them or inside each; `kind` names a file of layers/components/."""

    kind: Annotated[str, *one_of("layers/components")]
    name: OneLine = Field("", description="what its operations are called; omitted: its kind")
    input: int | None = Field(None, gt=0, description="linear: values that it reads for a position; omitted: d_model")
    width: int | None = Field(None, gt=0, description="values of its result, or of a row; omitted: d_model")
    rows: int | None = Field(None, gt=0, description="table, parameters, scale: how many rows of `width`")
    bias: bool = Field(True, description="linear: a bias of `width`")
    norm: Literal["rmsnorm", "layernorm", "layernorm_nobias", "none"] = "layernorm"
    merge: int = Field(1, gt=0, description="tokens that become one position (a patch merger)")
    spread: int = Field(
        1, gt=0, description="positions that it runs over for each token (a convolution before a stride)"
    )
    less: int = Field(0, ge=0, description="positions of the input that it leaves out (a class token)")
    positions: int | None = Field(
        None, gt=0, description="positions that it runs over, whatever the tokens (a prompt of fixed length)"
    )
    once: bool = Field(False, description="for each sequence, not for each token (a pooler)")

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "table" and self.rows is None:
            raise ValueError("rows: required for a table; add how many it has")
        return self


class ImageSpec(Spec):
    """How an image becomes what a model reads; `kind` names a file of layers/images/, which says what each size does."""

    kind: Annotated[str, *one_of("layers/images")]
    patch: int = Field(gt=0, description="pixels of a patch's side")
    size: int | None = Field(None, gt=0, description="pixels of the side that an image, or a tile of it, is brought to")
    merge: int = Field(1, gt=0, description="patches along a side that become one token")
    extra: int = Field(
        0, ge=0, description="positions of the tower in addition to the patches of an image or tile (a class token)"
    )
    tokens: int | None = Field(
        None, gt=0, description="prompt tokens of an image or tile, where the patches do not say"
    )
    wrap: int = Field(0, ge=0, description="further prompt tokens around an image (its begin and end)")
    least: int | None = Field(None, gt=0, description="pixels that an image is enlarged to")
    most: int | None = Field(None, gt=0, description="pixels that an image is reduced to")
    tiles: int = Field(1, gt=0, description="tiles that an image is cut into at most")
    grids: list[list[int]] = Field(
        default_factory=list,
        description="heights and widths in pixels that an image may be brought to, the best of which is taken",
    )
    overview: bool = Field(False, description="the whole image as a further tile, where it was cut")
    source: str = Field("", description="where the rule and its sizes come from")


class DenoisingSpec(Spec):
    """A model that makes an image in steps, each a pass over all of its tokens (DiT, Stable Diffusion 3, FLUX)."""

    steps: int = Field(gt=0, description="default steps of the sampler")
    guidance: bool = Field(
        description="whether each step runs twice, with and without the prompt (classifier-free guidance)"
    )
    context: int = Field(0, ge=0, description="tokens of the prompt, in addition to those of the image")
