"""Converters of pretrained files, one module per family.

Each module holds a table of renames (``NameTable``), the options that state sizes and wiring, and a
function ``convert...(checkpoint) -> PretrainedFile`` whose tensors are called ``encoder.*``,
``decoder.*`` (fairseq's stock names) and ``lm_head.*``. ``readers`` chooses the converter.

- ``roberta``: XLM-R, InfoXLM and fairseq's masked LMs; Hugging Face's XLM-R and BERT
- ``bart``: mBART, mBART-50, NLLB and M2M-100, fairseq's and Hugging Face's; ``nlu_encoder``
- ``deltalm``: DeltaLM, released or fine-tuned here
- ``veco``: VECO in fairseq's layout and as a Hugging Face folder
- ``gpt``: Hugging Face's GPT-2 and fairseq's ``transformer_lm``
"""
