"""Kernels of the reference device, by operation family; `table.find` returns one.

How to write a kernel

A family's file holds one function per operation and one table, `KERNELS`. A function takes the
operation's operands by their parameter names in `spec.py`: tensors as numpy arrays, scalars as
Python values, a variadic parameter as a tuple. Optional operands have a default here. The
operation's shape function has already passed; raise `ShapeError` for values that do not fit.

Besides operands a function may have these parameters:
    out     the array, or tuple of arrays, that receives the result: uninitialised, C-contiguous, of
            the shape that `nnapi.shapes` infers. Without it, the function returns its results (for
            data-dependent shapes, or where numpy allocates a new array anyway).
    types   the operands and outputs as `model.Operand`s without data, by name: scales, zero points
    run     the current `Run`: `run.check()` in long loops, `run.loop_timeout_ns`
A MODEL operand is passed as a `PreparedGraph`: `branch.run(inputs, (), run)` returns its outputs.

The table declares the types (of the signature's type variable T) of each function:
    real(OP, f, *DATA)   f computes on real numbers: float16 and quantized tensors are
                                     decoded to float32 before and encoded after it
    elementwise(OP, f, F32, F16, Q8) the same for an element-wise function with broadcasting: it is
                                     called on blocks that stay in the cache
    pointwise(OP, f, F32, F16, Q8)   the same for a unary element-wise function of `input`: 8-bit
                                     types use a table of 256 results, computed once
    stored(OP, f, I32, Q8)           f computes on the elements as they are stored
    view(OP, f)                      only the shape changes, for any type
    rows_of(stored, (I32, Q8), f, g) such rows of functions with their operations' names
To add a type to an operation, add its code to a row, or a row with another function. To add an
operation: a shape function in `nnapi/shapes`, a kernel here, a test against a float64 formula.

`stored(..., filter=pack)` replaces an operand by the result of `pack`, computed once if all
arguments of `pack` are constant (it takes operands by name, as a kernel does, and may take
`types`). So weights are held once, in the kernel's layout. The name may be new: `cell=pack` adds
an argument.

Results of 8- and 16-bit types must be within one quantum of the exact result, rounded. Kernels on
real numbers compute in float32 and use `sums` for long sums: the error of a sum of 10**6 numbers
may be a millionth of the greatest result. `tests/nnapi/host/test_accuracy.py` tests each operation.
Do not loop over elements in Python; keep scratch memory in blocks that fit the cache.
"""
