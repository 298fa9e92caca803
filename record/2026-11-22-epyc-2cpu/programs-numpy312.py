import numpy as np, pandas as pd
def arrays(a, turns):
    s = 0.0
    for i in range(turns):
        b = a * 2 + i
        c = np.sqrt(b) - a
        s += float((c * b).sum())
    return s
def frames(a, n):
    rng = np.random.default_rng(2)
    df = pd.DataFrame({'k': rng.integers(0, 1000, n), 'v': a, 'w': rng.random(n)})
    s = 0.0
    for i in range(4):
        s += float((df.assign(z=df.v * df.w).groupby('k').z.sum()).max())
        s += float(df.sort_values('v').w.iloc[0])
    return s
def main():
    n = 500_000
    a = np.random.default_rng(1).random(n)
    print(round(arrays(a, 60) + frames(a, n), 6))
main()
