"""Reads expressions as the guide describes them, by recursive descent, into nested tuples."""
import math
import re


class Refused(Exception):
    """The expression cannot be compiled."""


TOKEN = re.compile(r"(?:\s|#[^\n]*\n)*(?:(0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*|@[^\s,()\[\];]+)|(\*\*|<<|>>|<=|>=|==|!=|[-+*/%<>()\[\],?:&|~=;]))")


def tokens(text):
    out, at = [], 0
    while at < len(text.rstrip()):
        m = TOKEN.match(text, at)
        if not m:
            raise Refused("text")
        at = m.end()
        out.append(m.group(m.lastindex))
    return out + [""]


class Parser:
    def __init__(self, text):
        self.t, self.i = tokens(text), 0

    def peek(self):
        return self.t[self.i]

    def take(self, want=None):
        t = self.t[self.i]
        if want is not None and t != want:
            raise Refused("expected " + want)
        self.i += 1
        return t

    def whole(self):
        """Definitions, then the value."""
        named = []
        while self.t[self.i + 1 : self.i + 2] == ["="]:
            name = self.take()
            self.take("=")
            named.append((name, self.cond()))
            self.take(";")
        e = self.cond()
        self.take("")
        return ("with", named, e) if named else e

    def cond(self):
        c = self.either()
        if self.peek() != "?":
            return c
        self.take()
        a = self.cond()
        self.take(":")
        return ("where", c, a, self.cond())

    def either(self):
        a = self.both()
        while self.peek() == "or":
            self.take()
            a = ("or", a, self.both())
        return a

    def both(self):
        a = self.inverse()
        while self.peek() == "and":
            self.take()
            a = ("and", a, self.inverse())
        return a

    def inverse(self):
        if self.peek() == "not":
            self.take()
            return ("not", self.inverse())
        return self.comparison()

    def comparison(self):
        items, ops = [self.bitor()], []
        if self.peek() in ("in", "not"):
            word = self.take()
            if word == "not":
                self.take("in")
            self.take("[")
            e = ("in", items[0], ("stack",) + tuple(self.args("]")))
            return ("not", e) if word == "not" else e
        while self.peek() in ("<", "<=", ">", ">=", "==", "!="):
            ops.append(self.take())
            items.append(self.bitor())
        if not ops:
            return items[0]
        pairs = [(o, items[i], items[i + 1]) for i, o in enumerate(ops)]
        e = pairs[0]
        for p in pairs[1:]:
            e = ("and", e, p)
        return e

    def bitor(self):
        a = self.bitand()
        while self.peek() == "|":
            a = (self.take(), a, self.bitand())
        return a

    def bitand(self):
        a = self.shift()
        while self.peek() == "&":
            a = (self.take(), a, self.shift())
        return a

    def shift(self):
        a = self.sum()
        while self.peek() in ("<<", ">>"):
            a = (self.take(), a, self.sum())
        return a

    def sum(self):
        a = self.product()
        while self.peek() in ("+", "-"):
            a = (self.take(), a, self.product())
        return a

    def product(self):
        a = self.sign()
        while self.peek() in ("*", "/", "%"):
            a = (self.take(), a, self.sign())
        return a

    def sign(self):
        if self.peek() in ("-", "+", "~"):
            return ("sign" + self.take(), self.sign())
        return self.power()

    def power(self):
        a = self.postfix()
        if self.peek() == "**":
            self.take()
            return ("**", a, self.sign())
        return a

    def postfix(self):
        a = self.atom()
        while self.peek() == "[":
            self.take()
            a = ("index", a, self.cond())
            self.take("]")
        return a

    def args(self, close):
        out = []
        while self.peek() != close:
            out.append(self.cond())
            if self.peek() != close:
                self.take(",")
        self.take(close)
        return out

    def atom(self):
        t = self.take()
        if t == "(":
            e = self.cond()
            self.take(")")
            return e
        if t == "[":
            return ("stack",) + tuple(self.args("]"))
        if t[:2] in ("0x", "0X"):
            return ("int", int(t, 16))
        if t[:1].isdigit() or t[:1] == ".":
            return ("int", int(t)) if t.isdigit() else ("float", float(t))
        if t in ("nan", "inf"):
            return ("float", float(t))
        if t == "pi":
            return ("float", math.pi)
        if t in ("x", "y", "col", "row", "lon", "lat", "pixel_area"):
            return ("place", t)
        if t == "nodata":
            return ("nodata",)
        if t[:1] == "@":
            return ("file", t[1:])
        if self.peek() == "(":
            self.take()
            return (t,) + tuple(self.args(")"))
        return ("name", t)
