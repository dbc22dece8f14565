# NNAPI's C API on Linux, of ep-nnapi: the target NeuralNetworks::NeuralNetworks.
if(NOT TARGET NeuralNetworks::NeuralNetworks)
  add_library(NeuralNetworks::NeuralNetworks SHARED IMPORTED)
  set_target_properties(NeuralNetworks::NeuralNetworks PROPERTIES
    IMPORTED_LOCATION "${CMAKE_CURRENT_LIST_DIR}/../libneuralnetworks.so"
    IMPORTED_SONAME "libneuralnetworks.so"
    INTERFACE_INCLUDE_DIRECTORIES "${CMAKE_CURRENT_LIST_DIR}/../include")
endif()
