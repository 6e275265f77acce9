"""What version 2024.12 of the standard says of elementwise functions where arithmetic ends: one line a case.

A line has what the arguments are, a colon, and what the result is; of complex numbers the two parts of each.

Arguments are numbers (``±`` stands for either sign), or a word for several: `finite`, `nonzero`, `positive` and
`negative` are finite, `above` and `below` are those and infinities, `any` is also NaN, `number` is what is not NaN,
`odd` and `even` are whole, `fraction` is not, `large` and `small` have a magnitude above or below 1.

Results are numbers; ``?`` stands before one whose sign is left open, and `x` and `y` are the arguments. `cos` and
`sin`, of the imaginary part, stand behind what they multiply. The lines follow the standard's, but for three of complex
square roots, which contradict the function that it defines; see docs/array_api.md.
"""

from __future__ import annotations

REAL = """
abs          nan : nan
abs          -0 : 0
abs          ±inf : inf
acos         nan : nan
acos         1.5 : nan
acos         inf : nan
acos         -1.5 : nan
acos         -inf : nan
acos         1 : 0
acosh        nan : nan
acosh        0.5 : nan
acosh        below : nan
acosh        1 : 0
acosh        inf : inf
asin         nan : nan
asin         1.5 : nan
asin         -1.5 : nan
asin         0 : 0
asin         -0 : -0
asinh        nan : nan
asinh        0 : 0
asinh        -0 : -0
asinh        inf : inf
asinh        -inf : -inf
atan         nan : nan
atan         0 : 0
atan         -0 : -0
atan         inf : pi/2
atan         -inf : -pi/2
atanh        nan : nan
atanh        1.5 : nan
atanh        -inf : nan
atanh        -1 : -inf
atanh        1 : inf
atanh        0 : 0
atanh        -0 : -0
ceil         ±inf : x
ceil         ±0 : x
ceil         odd : x
ceil         nan : nan
cos          nan : nan
cos          ±0 : 1
cos          ±inf : nan
cosh         nan : nan
cosh         ±0 : 1
cosh         ±inf : inf
exp          nan : nan
exp          ±0 : 1
exp          inf : inf
exp          -inf : 0
expm1        nan : nan
expm1        ±0 : x
expm1        inf : inf
expm1        -inf : -1
floor        ±inf : x
floor        ±0 : x
floor        even : x
floor        nan : nan
log          nan : nan
log          below : nan
log          ±0 : -inf
log          1 : 0
log          inf : inf
log1p        nan : nan
log1p        -1.5 : nan
log1p        -inf : nan
log1p        -1 : -inf
log1p        ±0 : x
log1p        inf : inf
log2         nan : nan
log2         below : nan
log2         ±0 : -inf
log2         1 : 0
log2         inf : inf
log10        nan : nan
log10        below : nan
log10        ±0 : -inf
log10        1 : 0
log10        inf : inf
reciprocal   0 : inf
reciprocal   -0 : -inf
reciprocal   inf : 0
reciprocal   -inf : -0
reciprocal   nan : nan
round        ±inf : x
round        ±0 : x
round        odd : x
round        nan : nan
round        0.5 : 0
round        1.5 : 2
round        -2.5 : -2
sign         below : -1
sign         ±0 : ?0
sign         above : 1
sign         nan : nan
sin          nan : nan
sin          ±0 : x
sin          ±inf : nan
sinh         nan : nan
sinh         ±0 : x
sinh         ±inf : x
sqrt         nan : nan
sqrt         below : nan
sqrt         ±0 : x
sqrt         inf : inf
square       ±inf : inf
square       ±0 : 0
square       nan : nan
tan          nan : nan
tan          ±0 : x
tan          ±inf : nan
tanh         nan : nan
tanh         ±0 : x
tanh         inf : 1
tanh         -inf : -1
trunc        ±inf : x
trunc        ±0 : x
trunc        odd : x
trunc        nan : nan
isfinite     ±inf : 0
isfinite     nan : 0
isfinite     finite : 1
isinf        ±inf : 1
isinf        nan : 0
isinf        finite : 0
isnan        nan : 1
isnan        ±inf : 0
isnan        finite : 0
signbit      0 : 0
signbit      -0 : 1
signbit      above : 0
signbit      below : 1
signbit      nan : 0
add          any nan : nan
add          nan any : nan
add          inf -inf : nan
add          -inf inf : nan
add          ±inf finite : x
add          finite ±inf : y
add          inf inf : inf
add          -inf -inf : -inf
add          -0 -0 : -0
add          -0 0 : 0
add          0 -0 : 0
add          ±0 nonzero : y
add          nonzero ±0 : x
add          3 -3 : 0
subtract     any nan : nan
subtract     inf inf : nan
subtract     -inf -inf : nan
subtract     -0 0 : -0
subtract     0 0 : 0
subtract     3 3 : 0
atan2        any nan : nan
atan2        nan any : nan
atan2        above ±0 : pi/2
atan2        0 above : 0
atan2        0 0 : 0
atan2        0 -0 : pi
atan2        0 below : pi
atan2        -0 above : -0
atan2        -0 0 : -0
atan2        -0 -0 : -pi
atan2        -0 below : -pi
atan2        below ±0 : -pi/2
atan2        positive inf : 0
atan2        positive -inf : pi
atan2        negative inf : -0
atan2        negative -inf : -pi
atan2        inf finite : pi/2
atan2        -inf finite : -pi/2
atan2        inf inf : pi/4
atan2        inf -inf : 3pi/4
atan2        -inf inf : -pi/4
atan2        -inf -inf : -3pi/4
copysign     finite below : -|x|
copysign     finite -0 : -|x|
copysign     finite 0 : |x|
copysign     finite above : |x|
divide       any nan : nan
divide       nan any : nan
divide       ±inf ±inf : nan
divide       ±0 ±0 : nan
divide       0 above : 0
divide       -0 above : -0
divide       0 below : -0
divide       -0 below : 0
divide       above 0 : inf
divide       above -0 : -inf
divide       below 0 : -inf
divide       below -0 : inf
divide       inf positive : inf
divide       inf negative : -inf
divide       -inf positive : -inf
divide       -inf negative : inf
divide       positive inf : 0
divide       positive -inf : -0
divide       negative inf : -0
divide       negative -inf : 0
floor_divide any nan : nan
floor_divide nan any : nan
floor_divide ±inf ±inf : nan
floor_divide ±0 ±0 : nan
floor_divide 0 above : 0
floor_divide -0 above : -0
floor_divide 0 below : -0
floor_divide -0 below : 0
floor_divide above 0 : inf
floor_divide above -0 : -inf
floor_divide below 0 : -inf
floor_divide below -0 : inf
floor_divide inf positive : inf
floor_divide inf negative : -inf
floor_divide -inf positive : -inf
floor_divide -inf negative : inf
floor_divide positive inf : 0
floor_divide positive -inf : -0
floor_divide negative inf : -0
floor_divide negative -inf : 0
floor_divide 7 2 : 3
floor_divide -7 2 : -4
floor_divide 7 -2 : -4
floor_divide -7 -2 : 3
floor_divide 1 3 : 0
floor_divide -1 -3 : 0
hypot        ±inf any : inf
hypot        any ±inf : inf
hypot        ±0 any : |y|
hypot        any ±0 : |x|
hypot        finite nan : nan
hypot        nan finite : nan
logaddexp    any nan : nan
logaddexp    nan any : nan
logaddexp    inf number : inf
logaddexp    number inf : inf
maximum      any nan : nan
maximum      nan any : nan
minimum      any nan : nan
minimum      nan any : nan
multiply     any nan : nan
multiply     nan any : nan
multiply     ±inf ±0 : nan
multiply     ±0 ±inf : nan
multiply     inf above : inf
multiply     inf below : -inf
multiply     -inf above : -inf
multiply     -inf below : inf
multiply     above inf : inf
multiply     below inf : -inf
multiply     0 positive : 0
multiply     0 negative : -0
multiply     -0 positive : -0
multiply     -0 negative : 0
nextafter    any nan : nan
nextafter    nan any : nan
nextafter    -0 0 : 0
nextafter    0 -0 : -0
pow          large nan : nan
pow          small nan : nan
pow          negative nan : nan
pow          any ±0 : 1
pow          nan nonzero : nan
pow          nan ±inf : nan
pow          large inf : inf
pow          large -inf : 0
pow          ±1 ±inf : 1
pow          1 number : 1
pow          small inf : 0
pow          small -inf : inf
pow          inf above : inf
pow          inf below : 0
pow          -inf odd : -inf
pow          -inf even : inf
pow          -inf fraction : inf
pow          -inf inf : inf
pow          -inf -odd : -0
pow          -inf -even : 0
pow          -inf -fraction : 0
pow          -inf -inf : 0
pow          0 above : 0
pow          0 below : inf
pow          -0 odd : -0
pow          -0 even : 0
pow          -0 fraction : 0
pow          -0 inf : 0
pow          -0 -odd : -inf
pow          -0 -even : inf
pow          -0 -fraction : inf
pow          -0 -inf : inf
pow          negative fraction : nan
remainder    any nan : nan
remainder    nan any : nan
remainder    ±inf any : nan
remainder    any ±0 : nan
remainder    ±0 above : 0
remainder    ±0 below : -0
remainder    positive inf : x
remainder    positive -inf : y
remainder    negative inf : y
remainder    negative -inf : x
remainder    -7 2 : 1
remainder    7 -2 : -1
equal        any nan : 0
equal        nan any : 0
equal        inf inf : 1
equal        -inf -inf : 1
equal        inf -inf : 0
equal        ±0 ±0 : 1
equal        3 3 : 1
not_equal    any nan : 1
not_equal    nan any : 1
not_equal    inf -inf : 1
not_equal    inf inf : 0
not_equal    ±0 ±0 : 0
"""

COMPLEX = """
abs    ±inf any : inf
abs    any ±inf : inf
abs    ±0 any : |y|
abs    any ±0 : |x|
abs    nan finite : nan
abs    finite nan : nan
abs    nan nan : nan
acos   ±0 0 : pi/2 -0
acos   ±0 nan : pi/2 nan
acos   finite inf : pi/2 -inf
acos   nonzero nan : nan nan
acos   -inf positive : pi -inf
acos   inf positive : 0 -inf
acos   -inf inf : 3pi/4 -inf
acos   inf inf : pi/4 -inf
acos   ±inf nan : nan ?inf
acos   nan finite : nan nan
acos   nan inf : nan -inf
acos   nan nan : nan nan
acosh  ±0 0 : 0 pi/2
acosh  finite inf : inf pi/2
acosh  nonzero nan : nan nan
acosh  0 nan : nan ?pi/2
acosh  -inf positive : inf pi
acosh  inf positive : inf 0
acosh  -inf inf : inf 3pi/4
acosh  inf inf : inf pi/4
acosh  ±inf nan : inf nan
acosh  nan finite : nan nan
acosh  nan inf : inf nan
acosh  nan nan : nan nan
asinh  0 0 : 0 0
asinh  positive inf : inf pi/2
asinh  finite nan : nan nan
asinh  inf positive : inf 0
asinh  inf inf : inf pi/4
asinh  nan 0 : nan 0
asinh  nan nonzero : nan nan
asinh  nan inf : ?inf nan
asinh  nan nan : nan nan
atanh  0 0 : 0 0
atanh  0 nan : 0 nan
atanh  1 0 : inf 0
atanh  positive inf : 0 pi/2
atanh  nonzero nan : nan nan
atanh  inf positive : 0 pi/2
atanh  inf inf : 0 pi/2
atanh  inf nan : 0 nan
atanh  nan finite : nan nan
atanh  nan inf : ?0 pi/2
atanh  nan nan : nan nan
cosh   0 0 : 1 0
cosh   0 inf : nan ?0
cosh   0 nan : nan ?0
cosh   nonzero inf : nan nan
cosh   nonzero nan : nan nan
cosh   inf 0 : inf 0
cosh   inf nonzero : inf*cos inf*sin
cosh   inf inf : ?inf nan
cosh   inf nan : inf nan
cosh   nan ±0 : nan ?0
cosh   nan nonzero : nan nan
cosh   nan nan : nan nan
exp    ±0 0 : 1 0
exp    finite inf : nan nan
exp    finite nan : nan nan
exp    inf 0 : inf 0
exp    -inf finite : 0*cos 0*sin
exp    inf nonzero : inf*cos inf*sin
exp    -inf inf : ?0 ?0
exp    inf inf : ?inf nan
exp    -inf nan : ?0 ?0
exp    inf nan : ?inf nan
exp    nan 0 : nan 0
exp    nan nonzero : nan nan
exp    nan ±inf : nan nan
exp    nan nan : nan nan
expm1  ±0 0 : 0 0
expm1  finite inf : nan nan
expm1  finite nan : nan nan
expm1  inf 0 : inf 0
expm1  -inf finite : -1 0*sin
expm1  inf nonzero : inf*cos inf*sin
expm1  -inf inf : -1 ?0
expm1  inf inf : ?inf nan
expm1  -inf nan : -1 ?0
expm1  inf nan : ?inf nan
expm1  nan 0 : nan 0
expm1  nan nonzero : nan nan
expm1  nan ±inf : nan nan
expm1  nan nan : nan nan
isfinite nan any : 0
isfinite any nan : 0
isfinite ±inf any : 0
isfinite any ±inf : 0
isfinite finite finite : 1
isinf  ±inf any : 1
isinf  any ±inf : 1
isinf  finite nan : 0
isinf  nan finite : 0
isinf  finite finite : 0
isnan  nan any : 1
isnan  any nan : 1
isnan  number number : 0
log    -0 0 : -inf pi
log    0 0 : -inf 0
log    finite inf : inf pi/2
log    finite nan : nan nan
log    -inf positive : inf pi
log    inf positive : inf 0
log    -inf inf : inf 3pi/4
log    inf inf : inf pi/4
log    ±inf nan : inf nan
log    nan finite : nan nan
log    nan inf : inf nan
log    nan nan : nan nan
log1p  -1 0 : -inf 0
log1p  finite inf : inf pi/2
log1p  finite nan : nan nan
log1p  -inf positive : inf pi
log1p  inf positive : inf 0
log1p  -inf inf : inf 3pi/4
log1p  inf inf : inf pi/4
log1p  ±inf nan : inf nan
log1p  nan finite : nan nan
log1p  nan inf : inf nan
log1p  nan nan : nan nan
sign   ±0 ±0 : 0 0
sign   nan any : nan nan
sign   any nan : nan nan
sinh   0 0 : 0 0
sinh   0 inf : ?0 nan
sinh   0 nan : ?0 nan
sinh   positive inf : nan nan
sinh   positive nan : nan nan
sinh   inf 0 : inf 0
sinh   inf positive : inf*cos inf*sin
sinh   inf inf : ?inf nan
sinh   inf nan : ?inf nan
sinh   nan 0 : nan 0
sinh   nan nonzero : nan nan
sinh   nan nan : nan nan
sqrt   ±0 0 : 0 0
sqrt   any inf : inf inf
sqrt   finite nan : nan nan
sqrt   -inf positive : 0 inf
sqrt   inf positive : inf 0
sqrt   -inf nan : nan ?inf
sqrt   inf nan : inf nan
sqrt   nan finite : nan nan
sqrt   nan nan : nan nan
tanh   0 0 : 0 0
tanh   nonzero inf : nan nan
tanh   0 inf : 0 nan
tanh   nonzero nan : nan nan
tanh   0 nan : 0 nan
tanh   inf positive : 1 0
tanh   inf inf : 1 ?0
tanh   inf nan : 1 ?0
tanh   nan 0 : nan 0
tanh   nan nonzero : nan nan
tanh   nan nan : nan nan
"""

CONJUGATED = [
    "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log1p", "log2", "log10",
    "sin", "sinh", "sqrt", "tan", "tanh",
]  # fmt: skip
"""Functions of the conjugate are conjugates of functions, with their cases."""
ODD = ["asinh", "atanh", "sinh", "tanh", "asin", "atan", "sin", "tan"]
TURNED = {"asin": "asinh", "atan": "atanh", "cos": "cosh", "sin": "sinh", "tan": "tanh"}
"""Functions that have the cases of another one, of what is turned by a quarter and (but for `cos`) turned back."""
SCALED = {"log2": 0.6931471805599453, "log10": 2.302585092994046}
"""Logarithms that have the cases of the natural one, divided by that number."""
