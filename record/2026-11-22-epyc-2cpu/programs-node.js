function work(n){ const b=new Uint8Array(n); let s=0; for(let i=0;i<n;i+=4096){b[i]=1;s++;} return s; }
let t=0; for(let i=0;i<100;i++) t+=work(4<<20); console.log(t);
