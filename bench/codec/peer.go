package codec

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

//go:embed peer/peer.c
var source []byte

// errNoPeer is returned where the peer can't be built.
var errNoPeer = errors.New("building the peer takes cc, libdeflate and zlib: install gcc, libdeflate-dev, zlib1g-dev and, " +
	"to measure it too, libisal-dev")

// peer is the program in C, which runs as long as the benchmark.
type peer struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	isal bool
}

// startPeer builds and starts the peer.
func startPeer(ctx context.Context, dir string) (*peer, error) {
	program, file := filepath.Join(dir, "peer"), filepath.Join(dir, "peer.c")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return nil, err
	}
	build := func(more ...string) error {
		out, err := exec.CommandContext(ctx, "cc", append([]string{"-O2", "-o", program, file, "-ldeflate", "-lz"},
			more...)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %w\n%s", errNoPeer, err, out)
		}
		return nil
	}
	p := &peer{isal: true}
	if build("-DISAL", "-lisal") != nil {
		p.isal = false
		if err := build(); err != nil {
			return nil, err
		}
	}
	p.cmd = exec.CommandContext(ctx, "./"+filepath.Base(program))
	p.cmd.Dir = dir // commands name files without their directory, whose name may have spaces
	p.cmd.Stderr = os.Stderr
	var err1, err2 error
	p.in, err1 = p.cmd.StdinPipe()
	out, err2 := p.cmd.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// ask sends a command and returns the answer.
func (p *peer) ask(format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		return "", err
	}
	line, err := p.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("the peer ended: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// time returns the processor time of decoding all streams some times.
func (p *peer) time(library string, passes int) (time.Duration, error) {
	text, err := p.ask("time %s %d", library, passes)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return time.Duration(n), err
}

// encode returns the processor time of encoding all tiles some times, and the bytes of the streams.
func (p *peer) encode(library string, passes int) (taken time.Duration, bytes int, err error) {
	text, err := p.ask("encode %s %d", library, passes)
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(text, &taken, &bytes)
	return taken, bytes, err
}

func (p *peer) stop() error { return errors.Join(p.in.Close(), p.cmd.Wait()) }
