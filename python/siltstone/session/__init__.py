"""The turn boundary: the step of an agent before every model call."""

from siltstone.session.boundary import Prepared as Prepared
from siltstone.session.opening import StoreOptions as StoreOptions
from siltstone.session.retention import Retention as Retention
from siltstone.session.session import Session as Session
