"""Laws that everything of one kind obeys, for those who add their own."""

from streambayes.testing._family import check_family
from streambayes.testing._forgetting import check_forgetting
from streambayes.testing._model import check_model
from streambayes.testing._source import check_source

__all__ = ["check_family", "check_forgetting", "check_model", "check_source"]
