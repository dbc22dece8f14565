"""The runtime behind nnapi_agent: on a phone over adb, or behind any command's standard streams.

docs/agent.md specifies the protocol; native/nnapi_agent.c serves it.
"""
