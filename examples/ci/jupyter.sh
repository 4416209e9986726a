# A kernel of Jupyter in which every notebook sees a GPU, and your notebook.ipynb run in it.
# torchdevice-cuda's wheels are in the folder wheels: no package index has them yet.
# `pip wheel --no-deps . ./shim -w wheels`, in its sources, builds them.
export PIP_FIND_LINKS=wheels
pip install torchdevice-cuda torchdevice-cuda-shim ipykernel nbconvert numpy
python -m torchdevice_cuda --driver virtual --build
python -m ipykernel install --sys-prefix --name virtual-gpu --display-name "Python (virtual GPU)" \
  --env TORCHDEVICE_AUTO 1 --env TORCHDEVICE_DRIVER virtual --env TORCHDEVICE_MEMORY 2GiB
python -m nbconvert --to notebook --execute --ExecutePreprocessor.kernel_name=virtual-gpu --output done notebook.ipynb
