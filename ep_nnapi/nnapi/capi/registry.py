"""Tables of the live objects of each kind, by the clients' handles."""

from __future__ import annotations

from ep_nnapi.nnapi.capi.builder import ModelBuilder
from ep_nnapi.nnapi.capi.compilation import CompilationBuilder
from ep_nnapi.nnapi.capi.descriptor import Descriptor
from ep_nnapi.nnapi.capi.event import Event
from ep_nnapi.nnapi.capi.execution import Burst, Execution
from ep_nnapi.nnapi.capi.handles import Handles
from ep_nnapi.nnapi.capi.memory import AnyMemory

MODELS: Handles[ModelBuilder] = Handles("Model")
COMPILATIONS: Handles[CompilationBuilder] = Handles("Compilation")
EXECUTIONS: Handles[Execution] = Handles("Execution")
BURSTS: Handles[Burst] = Handles("Burst")
EVENTS: Handles[Event] = Handles("Event")
DESCRIPTORS: Handles[Descriptor] = Handles("MemoryDesc")
MEMORIES: Handles[AnyMemory] = Handles("Memory")
