"""Where tensors lie, whatever they say of themselves."""

import jax


def devices_of(t):
    """The devices of JAX that hold a tensor's elements; small ones of a CPU (and of a stand-in) may be NumPy's."""
    array = t._st.array
    return array.devices() if isinstance(array, jax.Array) else {jax_device(t.device)}


def jax_device(dev):
    """The device of JAX behind one of torch's; the first of its kind."""
    return jax.local_devices(backend="cpu" if dev.type == "cpu" else None)[0]
