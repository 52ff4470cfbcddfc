"""Models in the formats of other programs: ONNX graphs for the runtime, safetensors, Hugging Face's layout.

``command`` is ``fairseq-plugins export``. For ONNX each kind of model has a file that makes a
:class:`~.folder.Content` of it: the torch modules of its graphs, and what ``model.json`` says of it. ``graphs`` turns modules into
files, ``folder`` writes all.
"""
