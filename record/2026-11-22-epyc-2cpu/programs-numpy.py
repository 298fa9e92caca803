import numpy as np, pandas as pd
rng=np.random.default_rng(1)
n=500_000
a=rng.random(n)
s=0.0
for i in range(60):
    b=a*2+i; c=np.sqrt(b)-a; s+=float((c*b).sum())
df=pd.DataFrame({'k':rng.integers(0,1000,n),'v':a,'w':rng.random(n)})
for i in range(4):
    s+=float((df.assign(z=df.v*df.w).groupby('k').z.sum()).max())
    s+=float(df.sort_values('v').w.iloc[0])
print(round(s,6))
