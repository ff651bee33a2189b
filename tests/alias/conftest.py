"""Programs of these tests are judged as those of the autograd tests are: by torch, live or recorded."""

from tests.autograd.conftest import same as same
