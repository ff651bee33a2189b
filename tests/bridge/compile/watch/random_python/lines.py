"""What random steps read, what is done to it between calls, and what a step itself may do: text, run beside `state.py`.

`V` stands for a number.
"""

READS = """
G
GL[0]
GL[-1]
sum(GL)
len(GL)
cfg["a"]
cfg["b"]["c"]
cfg["b"]["d"][1]
cfg["t"][0]["g"]
cfg["t"][1][0]
cfg[cfg["name"]]
cfg.get("zz", 4.0)
cfg.get("a")
(cfg["a"] if cfg["flag"] else G)
("zz" in cfg)
arr[1]
arr.sum()
float(arr.max())
marr[0, 1]
marr.T[1][0]
oarr[1]["u"]
sum(o["u"] for o in oarr)
ba[0]
dq[-1]
sum(dq)
len(st)
(2 in st)
sum(sorted(st))
ctr["x"]
ctr.most_common(1)[0][1]
dd["k"]
dd.get("q", 1.0)
next(iter(od.values()))
list(od)[0] == "p"
cm["m"]
cm["n"]
obj.x
obj.l[0]
obj.d["e"]
obj.sub.y
obj.sub.meth()
obj.sub.meth(k=G)
len(obj.sub)
obj.p
obj.ca
Obj.ca
obj.cmeth()
obj.smeth(1.0)
obj.table["s"]
obj.dynx
obj[0]
obj(2.0)
sum(obj)
(1.0 in obj)
getattr(obj, "x")
getattr(obj, "nope", 7.0)
hasattr(obj, "extra")
vars(obj).get("extra", 1.0)
isinstance(obj, Other)
type(obj).ca
dc.f
dc.g[0]
dataclasses.asdict(dc)["f"]
fdc.f
fdc.g["w"]
nt.a
nt.b[0]
nt[1][1]
choice.value
(choice is E.A)
helper(1.0)
helper(G, off={"o": 2.0})
get()
fns[0](1.0)
fns[-1](2.0)
sum(f(1.0) for f in fns)
part(1.0)
bound("a")
bound_item(1)
cached(2.0)
wr().x
ns.i
ns.j[0]
mp["a"]
mp["b"]["c"]
globals()["G"]
max(cfg["b"]["d"])
max(GL, key=lambda v: -v * G)
min(obj.l)
sorted(GL, key=obj)[0]
sum(map(obj, GL))
sum(a * b for a, b in zip(GL, obj.l))
[v * 2 for v in GL][-1]
{k: v for k, v in od.items()}["p"]
functools.reduce(operator.add, GL)
operator.itemgetter("a")(cfg)
operator.attrgetter("sub.y")(obj)
list(itertools.chain(GL, obj.l))[3]
list(itertools.accumulate(GL))[-1]
dict(zip("ab", GL))["b"]
(lambda v=GL: v[0])()
len(f"{cfg['a']}")
len(str(cfg["b"]))
len("%s" % obj.x)
float(str(G))
wd.de
WithDesc.de
cv.get()
copy.copy(cfg)["a"]
copy.deepcopy(cfg)["b"]["c"]
any(v > 2 for v in GL)
all(GL)
tuple(GL)[1]
[*GL, *obj.l][2]
(lambda a, *r: sum(r))(*GL)
(lambda **k: k["a"])(**cfg)
int(bool(cfg["b"]))
(GL == [1.0, 2.0, 3.0])
(cfg["b"] == {"c": 3.0, "d": [4.0, 5.0]})
math.floor(G)
round(obj.x, 1)
divmod(G, 1)[0]
hash(cfg["name"]) == hash("a")
next((v for v in GL if v > 1.5), 0.0)
len(list(filter(lambda v: v > G, GL)))
lin.training
seq[2].p
lin.in_features
len(seq)
buf.shape[0]
len(tl)
id(obj) == id(wr())
obj is wr()
cfg["b"].__len__()
GL.__contains__(2.0)
GL.index(2.0) if 2.0 in GL else -1.0
GL.count(1.0)
str.upper(cfg["name"]) == "A"
cfg["name"].startswith("a")
obj.__dict__.get("extra", 2.0)
obj.l.copy()[0]
cfg["b"].copy()["c"]
list(reversed(GL))[0]
GL[::2][1]
arr.tolist()[0]
np.dot(arr, arr)
arr.mean()
(arr > 1.5).sum()
arr[arr > 1.5][0]
np.max(marr)
""".strip().splitlines()
TENSORS = ("x", "x * buf", "x + tl[0]", "x * td['w']", "lin(x)", "(x @ lin.weight)", "x.cumsum(0)", "x.flip(0)")
CHANGES = """
globals().__setitem__("G", V)
GL.__setitem__(0, V)
GL.append(V)
GL.pop() if len(GL) > 3 else GL.append(V)
GL.reverse()
GL.sort()
GL.insert(0, V)
globals().__setitem__("GL", [V, 5.0, 6.0])
cfg.__setitem__("a", V)
cfg["b"].__setitem__("c", V)
cfg["b"]["d"].__setitem__(1, V)
cfg["b"]["d"].append(V)
cfg["t"][0].__setitem__("g", V)
cfg["t"][1].__setitem__(0, V)
cfg.__setitem__("zz", V)
cfg.pop("zz", None)
cfg.__setitem__("flag", not cfg["flag"])
cfg.__setitem__("name", "zz" if "zz" in cfg else "a")
cfg.__setitem__("b", dict(cfg["b"], c=V))
cfg.update(a=V)
arr.__setitem__(1, V)
arr.fill(V)
arr.sort()
marr.__setitem__((0, 1), V)
marr[1].__setitem__(0, V)
oarr[1].__setitem__("u", V)
oarr.__setitem__(0, dict(u=V))
ba.__setitem__(0, int(V))
dq.append(V)
dq.popleft()
dq.rotate(1)
st.add(int(V) + 5)
st.discard(2)
ctr.update("x")
ctr.update("yyy")
dd.__setitem__("k", V)
dd.__setitem__("q", V)
od.move_to_end("p")
od.__setitem__("p", V)
cm.maps[0].__setitem__("m", V)
cm.maps[1].__setitem__("n", V)
cm.maps[0].__setitem__("n", V)
setattr(obj, "x", V)
obj.l.__setitem__(0, V)
obj.l.append(V)
obj.d.__setitem__("e", V)
setattr(obj.sub, "y", V)
setattr(obj, "sub", Sub())
setattr(Sub, "z", V)
setattr(obj, "_p", V)
setattr(Obj, "ca", V)
setattr(obj, "ca", V)
obj.table.__setitem__("s", V)
setattr(obj, "extra", V)
setattr(obj, "dynx", V)
setattr(obj, "__class__", Other)
setattr(Sub, "meth", lambda self, k=1.0: V)
setattr(Obj, "__call__", lambda self, q: q + V)
setattr(Obj, "smeth", staticmethod(lambda q: q - V))
setattr(Obj, "cmeth", classmethod(lambda cls: V))
setattr(Obj, "p", property(lambda self: V))
setattr(Obj, "__len__", lambda self: 3)
setattr(Sub, "__len__", lambda self: 5)
setattr(dc, "f", V)
dc.g.__setitem__(0, V)
fdc.g.__setitem__("w", V)
object.__setattr__(fdc, "f", V)
nt.b.__setitem__(0, V)
nt.b.__setitem__(1, V)
globals().__setitem__("nt", NT(V, nt.b))
globals().__setitem__("choice", E.B)
helper.__defaults__[0].__setitem__(0, V)
helper.__kwdefaults__["off"].__setitem__("o", V)
setattr(helper, "__defaults__", ([V],))
setattr(helper, "__code__", (lambda v, scale=1, *, off=2: v - scale[0]).__code__)
put(V)
putb(V)
fns.__setitem__(0, lambda v: v - V)
fns.append(lambda v: v * V)
part.keywords["scale"].__setitem__(0, V)
globals().__setitem__("part", functools.partial(helper, scale=[V]))
globals().__setitem__("obj", Other())
setattr(ns, "i", V)
ns.j.__setitem__(0, V)
globals().__setitem__("helper", lambda v, scale=0, *, off=0: v + V)
setattr(Desc, "__get__", lambda self, o, t=None: V)
wd.l.__setitem__(0, V)
cv.set(V)
lin.train(not lin.training)
setattr(seq[2], "p", 0.25)
seq.append(torch.nn.ReLU()) if len(seq) < 5 else None
buf.add_(V)
globals().__setitem__("buf", torch.tensor([V, 1.0]))
tl[0].mul_(V)
tl.__setitem__(0, torch.tensor(V))
td.__setitem__("w", torch.tensor([V, 2.0]))
lin.weight.data.mul_(V)
setattr(lin, "weight", torch.nn.Parameter(torch.ones(2, 2) * V))
globals().__setitem__("lin", torch.nn.Linear(2, 2, bias=False))
lin.register_forward_hook(lambda m, a, o: o * V)
setattr(lin, "forward", lambda q: q * V)
setattr(arr, "shape", (3,))
setattr(marr, "shape", (4, 1)) if marr.shape == (2, 2) else setattr(marr, "shape", (2, 2))
globals().__setitem__("arr", np.array([V, 1.0, 2.0]))
""".strip().splitlines()
EFFECTS = """
cfg.__setitem__("n", cfg.get("n", 0) + 1)
GL.append(obj.x) if len(GL) < 6 else None
setattr(obj, "x", obj.x + 1.0)
obj.d.__setitem__("e", obj.d["e"] * 1.5)
buf.add_(1.0)
dq.append(1.0)
globals().__setitem__("G", G + 0.5)
setattr(ns, "i", ns.i + 1)
arr.__setitem__(0, arr[0] + 1.0)
ctr.update("x")
td.__setitem__("w", td["w"] * 2)
dd["new"]
cfg["b"]["d"].append(1.0) if len(cfg["b"]["d"]) < 4 else None
st.add(9)
""".strip().splitlines()
