package pyfunc

import (
	"bufio"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// maxLine is the longest line that is not split.
const maxLine = 8 << 10

// lines passes on what a process prints, line by line, and keeps the last lines.
type lines struct {
	from *os.File
	done chan struct{}

	mu   sync.Mutex
	tail []string
}

func readLines(from *os.File, out io.Writer) *lines {
	l := &lines{from: from, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		defer from.Close()
		r := bufio.NewReaderSize(from, maxLine)
		for {
			line, err := r.ReadSlice('\n')
			if len(line) > 0 {
				text := slices.Clone(line)
				if text[len(text)-1] != '\n' {
					text = append(text, '\n')
				}
				l.keep(string(text[:len(text)-1]))
				_, _ = out.Write(text)
			}
			if err != nil && err != bufio.ErrBufferFull {
				return
			}
		}
	}()
	return l
}

func (l *lines) keep(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tail = append(l.tail, line)
	if len(l.tail) > tailLines {
		l.tail = l.tail[1:]
	}
}

// await waits until all output of an ended process is passed on. It does not wait for long, since
// another process may keep the pipe open.
func (l *lines) await() {
	_ = l.from.SetReadDeadline(time.Now().Add(time.Second))
	<-l.done
}

func (l *lines) last() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.tail)
}
