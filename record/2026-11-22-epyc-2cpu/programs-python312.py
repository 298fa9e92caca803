import hashlib, json
def table(n):
    return {f"key {i}": [i, i * 3, str(i)] for i in range(n)}
def text(rows):
    return json.dumps(rows).encode()
def chunks(data, size):
    return [bytearray(data[i:i + size]) for i in range(0, len(data), size)]
def main():
    digest = hashlib.sha256()
    for turn in range(6):
        data = text(table(60_000 + turn))
        for part in chunks(data, 1 << 20):
            part[0] = turn
            digest.update(part)
    print(digest.hexdigest())
main()
