package lockfile

import (
	"os"
	"testing"
)

func TestALocalFolderServesAndOneThatCantBeAskedDoesNot(t *testing.T) {
	if kind, local := fileSystem(-1); local || kind == "" {
		t.Errorf("what can't be asked is %q, local %v", kind, local)
	}
	if kind, local := fileSystem(openTest(t).Fd()); !local {
		t.Errorf("the folder for tests is on %s", kind)
	}
	f := ok(os.Open("/proc"))(t) // of a kind that is not known
	defer f.Close()
	if kind, local := fileSystem(int(f.Fd())); !local {
		t.Errorf("a file system that is not known is taken for %q", kind)
	}
}
