# Runs the scripts of one test process, each in a child of its own. It imports modules once: that
# takes longer than most scripts. It ends when its standard input does.
import faulthandler, importlib, json, os, select, signal, socket, sys, traceback


def write(file, data):
    while data:
        data = data[os.write(file, data):]


def run(request, connection):
    """Runs a script with the streams, directory and environment of the request, and sends what it wrote."""
    output, errors = os.memfd_create("stdout"), os.memfd_create("stderr")
    given = os.memfd_create("stdin")
    write(given, request["stdin"].encode())
    os.lseek(given, 0, os.SEEK_SET)
    for fd, file in enumerate((given, output, errors)):
        os.dup2(file, fd)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")
    code = 1
    try:
        os.chdir(request["dir"])
        os.environ.clear()
        os.environ.update(e.split("=", 1) for e in request["env"])
        sys.argv = ["-c"]
        exec(compile(request["script"], "<string>", "exec"), {"__name__": "__main__"})
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 0 if e.code is None else 1
        if isinstance(e.code, str):
            print(e.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    result = [open(f, "rb", closefd=False) for f in (output, errors)]
    for r in result:
        r.seek(0)
    head = {"code": code, "stderr": result[1].read().decode(errors="replace")}
    connection.sendall(json.dumps(head).encode() + b"\n" + result[0].read())


def serve(name):
    faulthandler.enable(os.dup(2))  # where a script crashed
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("\0" + name)
        listener.listen(64)
        print("ready", flush=True)
        while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                line = lines.readline()
                if not line:
                    continue
                request = json.loads(line)
                try:
                    for module in request["modules"] or []:
                        importlib.import_module(module)
                except ImportError:
                    pass  # the script fails in the same way, and says so
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    listener.close()
                    try:
                        run(request, connection)
                    finally:
                        os._exit(0)


serve(sys.argv[1])
