"""Models in the formats of other programs: ONNX for the runtime, safetensors, Hugging Face.

``command`` is ``fairseq-plugins export``. For ONNX each kind of model has a file that makes a
:class:`~.folder.Content` of it: the torch modules of its graphs, and their description in
``model.json``. ``graphs`` turns modules into files, ``folder`` writes all.
"""
