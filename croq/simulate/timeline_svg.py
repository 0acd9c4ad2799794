def to_svg(x): return ""
