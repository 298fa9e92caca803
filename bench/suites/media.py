"""Media and documents: ffmpeg, Chromium."""
from .outcomes import job, suite

ENCODERS = {
    "libx264": "-c:v libx264 -preset veryfast -threads 2", "libx264, slices": "-c:v libx264 -preset ultrafast -x264-params sliced-threads=1 -threads 4",
    "libx265": "-c:v libx265 -preset ultrafast -x265-params log-level=none:pools=2", "mpeg4": "-c:v mpeg4 -qscale:v 4 -threads 2",
    "libvpx-vp9": "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -row-mt 1 -threads 2", "ffv1": "-c:v ffv1 -level 3 -slices 4 -threads 2",
    "mjpeg": "-c:v mjpeg -pix_fmt yuvj420p -q:v 4 -threads 1", "libsvtav1": "-c:v libsvtav1 -preset 10 -svtav1-params lp=2",
}


@suite("ffmpeg", version="ffmpeg -version", needs=("ffmpeg",))
def ffmpeg(box):
    """A test picture and sound through encoders and decoders with threads: the same files and framemd5."""
    start, exact = "ffmpeg -nostdin -loglevel error -y", "-fflags +bitexact -flags:v +bitexact -flags:a +bitexact"
    source = "-f lavfi -i testsrc2=duration=4:size=640x360:rate=25"
    there = box.prepare("ffmpeg -hide_banner -encoders")
    for name, options in ENCODERS.items():
        if f" {options.split()[1]} " in there:
            yield job(name, f"{start} {source} {options} {exact} o.mkv 2>/dev/null && sha256sum o.mkv && {start} -threads 2 -i o.mkv -f framemd5 -")
    for codec in ("aac", "flac", "libopus", "libmp3lame"):
        if f" {codec} " in there:
            yield job(codec, f"{start} -f lavfi -i 'aevalsrc=sin(t*t*900)|sin(300*t):d=20:s=48000' -c:a {codec} {exact} o.mkv && sha256sum o.mkv && {start} -i o.mkv -f md5 -")
    yield job("filters", f"{start} {source} -vf 'scale=1280:720,hue=s=2,gblur=3,rotate=0.1,split[a][b];[a]vflip[c];[b][c]hstack' -f framemd5 -")
    yield job("concurrent", f"for i in 1 2 3 4; do {start} {source} -c:v mpeg4 {exact} $i.mkv & done; wait; sha256sum ?.mkv")


PAGE = """<!doctype html><title>p</title><canvas id=c width=600 height=400></canvas><script>
const x=document.getElementById('c').getContext('2d');for(let i=0;i<400;i++){x.fillStyle=`rgb(${i*7%256},${i*13%256},9)`;x.fillRect(i*37%600,i*53%400,40,30)}
let a=[];for(let i=0;i<200000;i++)a.push({i,s:'x'.repeat(i%20)});document.title=new Uint8Array(30<<20).fill(3).reduce((s,v)=>s+v,0)+' '+JSON.stringify(a).length;</script>"""


@suite("chromium", version="chromium --version", needs=("chromium",))
def chromium(box):
    """Headless: the DOM and a screenshot of a local page with a script and a canvas."""
    page, start = box.write("page.html", PAGE), "chromium --headless --no-sandbox --disable-gpu --no-first-run --user-data-dir=$PWD/u --virtual-time-budget=4000"
    yield job("dump-dom", f"{start} --dump-dom file://{page}", errors=False)
    yield job("screenshot", f"{start} --window-size=900,1200 --screenshot=$PWD/s.png file://{page} && sha256sum s.png", errors=False)
