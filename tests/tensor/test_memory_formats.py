"""Strides of results and of the gradients of leaves, for images laid out in every way: torch's memory formats."""

from tests.expressions import table

_SETUP = (
    """
cl, cl3, F = torch.channels_last, torch.channels_last_3d, torch.nn.functional
b, v = torch.arange(288.0).sub(99).view(2, 4, 6, 6), torch.arange(256.0).sub(99).view(2, 4, 2, 4, 4)
w, u = b.to(memory_format=cl), v.to(memory_format=cl3)
planes = {'row': b, 'last': w, 'every other': w[:, :, ::2, ::2], 'two channels': w[:, ::2]}
planes |= {'view': b[:, :, ::2, ::2], 'one channel': b[:, :1].to(memory_format=cl), 'transposed': b.transpose(2, 3)}
planes |= {'one plane': b[:1, :1].clone().as_strided((1, 1, 6, 6), (144, 36, 6, 1)), 'columns': w.transpose(2, 3)}
planes |= {'one plane, last': b[:1, :1].to(memory_format=cl), 'expanded': w[:1].expand(2, 4, 6, 6)}
planes |= {'all one': b[:, :, :1, :1].contiguous().to(memory_format=cl)}
odd = {'any stride': w[:, :, :1].clone().as_strided((2, 4, 1, 6), (24, 1, 999, 4))}
volumes = {'row': v, 'last': u, 'every other': u[:, :, :, ::2, ::2], 'transposed': v.transpose(3, 4)}
volumes |= {'corner': u[:, :, :1, :1, :1]}
channel = {'one channel': v[:, :1].to(memory_format=cl3)}
few = {'plane': b[0], 'unbatched': w[0], 'none': b[:0].to(memory_format=cl)}
kernel = lambda x, n: torch.ones(8, x.shape[1] if x.ndim > 3 else x.shape[0], *(n,) * max(2, x.ndim - 2))
ones = lambda y: torch.ones(y.shape, dtype=y.dtype)
like = lambda y: ones(y).clone(memory_format={4: cl, 5: cl3}.get(y.ndim, torch.contiguous_format))
leaf = lambda x: x.detach().requires_grad_()
chain = lambda n, k=3: n and (n.name(), [chain(m, k - 1) for m, _ in n.next_functions] if k else 0)
wide = lambda t: [s for n, s in zip(t.shape, t.stride()) if n != 1]
back = lambda f, x, g: (y := f(x), y.backward(g(y)), wide(x.grad))[2]
made = lambda f, x: [(y := f(leaf(x))).stride(), y._version, chain(y.grad_fn)]
look = lambda f, x: [*made(f, x), *[back(f, leaf(x), g) for g in (ones, like)]]
each = lambda f, *xs: {k: look(f, x) for some in xs for k, x in some.items()}
same = lambda y, x: (y.stride(), y is x)
kept = lambda x, q: [same(x.to(memory_format=q), x), same(x.contiguous(memory_format=q), x)]
ways = lambda x, q: [*kept(x, q), x.is_contiguous(memory_format=q)]
new = lambda x, q: [x.clone(memory_format=q), x.double(memory_format=q), x.to(memory_format=q, copy=True)]
to = lambda q, *xs: {k: [*ways(x, q), *[y.stride() for y in new(x, q)]] for some in xs for k, x in some.items()}
empty = lambda q: {k: torch.empty_like(x, memory_format=q).stride() for k, x in planes.items()}
""".strip().replace("\n", "; ")
    + "; "
)
_PLANES = """
F.conv2d(x, kernel(x, 3), torch.ones(8), padding=1)
F.conv2d(x, kernel(x, 1).to(memory_format=cl))
F.conv2d(x, kernel(x, 3).to(memory_format=cl), padding=1)
F.conv2d(x, torch.ones(x.shape[-3], 1, 3, 3), padding=1, groups=x.shape[-3])
F.conv_transpose2d(x, kernel(x, 1).transpose(0, 1))
F.conv_transpose2d(x, kernel(x, 3).transpose(0, 1).contiguous().to(memory_format=cl))
F.max_unpool2d(*F.max_pool2d(x, 1, return_indices=True), 1)
F.avg_pool2d(x, 1)
F.adaptive_avg_pool2d(x, 1)
F.adaptive_avg_pool2d(x, (1, 3))
F.adaptive_max_pool2d(x, 1)
F.group_norm(x, 1, torch.ones(x.shape[1]), torch.zeros(x.shape[1]))
F.layer_norm(x, x.shape[-1:])
F.rms_norm(x, x.shape[-1:])
F.interpolate(x, scale_factor=2)
F.interpolate(x, scale_factor=2, mode='nearest-exact')
F.interpolate(x, scale_factor=2, mode='bilinear')
F.interpolate(x, scale_factor=2, mode='bicubic')
F.interpolate(x, scale_factor=2, mode='bilinear', antialias=True)
F.interpolate(x, scale_factor=2, mode='bicubic', antialias=True)
F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2)
F.pixel_unshuffle(x, 1)
F.channel_shuffle(x, 1)
F.pad(x, (1, 1, 1, 1))
F.pad(x, (-1, 1))
F.pad(x, (0, 0))
F.pad(x, (0, 0, 0, 0), mode='reflect')
F.pad(x, (1, 1, 1, 1), mode='replicate')
F.prelu(x, torch.ones(x.shape[1]))
F.glu(x, -3) if x.shape[-3] % 2 == 0 else F.relu(x)
torch.cat([x, x.contiguous()], 1)
torch.stack([x, x], -1)
torch.roll(x, 1, 1)
torch.roll(x, (1, 2), (1, 3))
torch.roll(x, 1)
x.contiguous() + x
x.cumsum(1)
x.flip(1)
x.to(torch.float64, memory_format=cl)
x.to(torch.float64, memory_format=torch.contiguous_format)
F.normalize(x)
""".strip().splitlines()
_ODD = """
F.conv2d(x, kernel(x, 1))
F.max_pool2d(x, 1)
F.relu(x)
torch.cat([x, x], 1)
torch.stack([x, x], 1)
x + x.contiguous()
torch.where(x > 2, x, x.contiguous())
F.group_norm(x, 1)
""".strip().splitlines()
_VOLUMES = """
F.conv3d(x, kernel(x, 3).to(memory_format=cl3), padding=1)
F.conv3d(x[:1], kernel(x, 3), padding=1)
F.conv3d(x.double(), kernel(x, 3).double(), padding=1)
F.conv3d(x, kernel(x, 3), padding=1)
F.conv_transpose3d(x, kernel(x, 3).transpose(0, 1))
F.conv_transpose3d(x.double(), kernel(x, 3).transpose(0, 1).double())
F.max_pool3d(x, 1)
F.max_unpool3d(*F.max_pool3d(x, 1, return_indices=True), 1)
F.avg_pool3d(x, 1)
F.adaptive_avg_pool3d(x, 1)
F.adaptive_avg_pool3d(x, (1, 1, 2))
F.adaptive_max_pool3d(x, 1)
F.group_norm(x, 1)
F.interpolate(x, scale_factor=2)
F.interpolate(x, scale_factor=2, mode='trilinear')
F.channel_shuffle(x, 1)
F.pad(x, (1, 1, 1, 1))
F.pad(x, (1, 1, 1, 1, 1, 1), mode='replicate')
torch.cat([x, x], 1)
torch.stack([x, x], 1)
torch.roll(x, 1, 1)
torch.where(x > 2, x, x.contiguous())
x + x.contiguous()
""".strip().splitlines()
_FEW = """
F.conv2d(x, kernel(x, 3), padding=1)
F.conv2d(x, kernel(x, 3).to(memory_format=cl), padding=1)
F.max_pool2d(x, 1)
F.avg_pool2d(x, 1)
F.relu(x)
x.contiguous() + x
""".strip().splitlines()
_MODULES = """
[[p.stride() for p in m.parameters()] for m in [torch.nn.Conv2d(1, 4, 3).to(memory_format=cl)]]
[[p.stride() for p in m.parameters()] for m in [torch.nn.Conv2d(4, 1, 1).to(memory_format=cl)]]
[[p.stride() for p in m.parameters()] for m in [torch.nn.ConvTranspose3d(2, 4, 3).to(memory_format=cl3)]]
[m(w).stride() for m in [torch.nn.Sequential(torch.nn.Conv2d(4, 4, 3), torch.nn.BatchNorm2d(4)).to(memory_format=cl)]]
""".strip().splitlines()
_FORMATS = ("torch.contiguous_format", "torch.preserve_format", "cl")
_ROWS = [
    *(f"each(lambda x: {f}, planes)" for f in _PLANES),
    *(f"each(lambda x: {f}, planes, odd)" for f in _ODD),
    "each(lambda x: F.batch_norm(x, None, None, training=True), {k: planes[k] for k in list(planes)[:5]})",
    *(f"each(lambda x: {f}, volumes, channel)" for f in _VOLUMES),
    "each(lambda x: F.batch_norm(x, torch.zeros(x.shape[1]), torch.ones(x.shape[1])), volumes)",
    *(f"each(lambda x: {f}, few)" for f in _FEW),
    "to(torch.contiguous_format, planes, odd, volumes, channel, few)",
    "to(torch.preserve_format, {k: x for k, x in planes.items() if x.is_contiguous()})",
    "to(cl, planes, odd)",
    "to(cl3, volumes, channel)",
    *(f"empty({q})" for q in _FORMATS),
    "planes['last'].contiguous(memory_format=torch.preserve_format)",
    "[torch.empty_strided((2, 3, 2, 2), s).relu().stride() for s in ((12, 1, 6, 3), (50, 1, 6, 3), (50, 2, 12, 6))]",
    *_MODULES,
]

test_as_torch_does = table(__file__, *_ROWS, prelude=[_SETUP])
