package testkit

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// roleVar is the environment variable that makes a test binary a child.
const roleVar = "WEIR_TEST_ROLE"

// Main is the body of TestMain in a package whose tests start the test binary again, as
// another process. Such a child runs one of the roles, with the arguments that it was
// started with, instead of the tests. It ends when the role returns.
func Main(m *testing.M, roles map[string]func(args []string)) {
	name, child := os.LookupEnv(roleVar)
	if !child {
		os.Exit(m.Run())
	}
	role := roles[name]
	if role == nil {
		panic("testkit: there is no role " + strconv.Quote(name))
	}
	role(os.Args[1:])
	os.Exit(0)
}

// Child is a command that runs a role of [Main].
func Child(role string, args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// CrashRounds is how often a test kills a child: usual times, but twice with -short, and
// as often as the environment variable WEIR_CRASH_ROUNDS says where it is set.
func CrashRounds(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_CRASH_ROUNDS")); err == nil {
		return n
	}
	if testing.Short() {
		return min(2, usual)
	}
	return usual
}

// A Crash is a child that works until it is killed, and prints a line for everything that
// it has been told is on disk.
type Crash struct {
	Role string // of Main
	Args []string

	// The child is killed with SIGKILL After a delay that begins with line number Lines.
	Lines int
	After time.Duration
	// Within is how long the child may take to print that line. 0 is two minutes.
	Within time.Duration
}

// Run starts the child, kills it, and returns when it is dead. It calls acknowledged
// with each line that the child has printed, also with those that are still in the pipe
// after its death, but not with a last line that the kill has cut off. A child prints
// "error " and a text if it cannot go on. That, and a child that ends before it is
// killed, end the test.
func (c Crash) Run(t testing.TB, acknowledged func(line string)) {
	t.Helper()
	cmd := Child(c.Role, c.Args...)
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	within := c.Within
	if within == 0 {
		within = 2 * time.Minute
	}
	kill := time.AfterFunc(within, func() { _ = cmd.Process.Kill() }) // it fails only if the child has ended
	lines, failure := 0, ""
	for in := bufio.NewReader(pipe); ; {
		line, err := in.ReadString('\n')
		if err != nil {
			if err != io.EOF {
				failure = err.Error()
			}
			break
		}
		line = line[:len(line)-1]
		if strings.HasPrefix(line, "error ") {
			failure = line
			_ = cmd.Process.Kill()
			break
		}
		acknowledged(line)
		if lines++; lines == c.Lines {
			kill.Reset(c.After)
		}
	}
	early := kill.Stop()
	err = cmd.Wait()
	switch {
	case failure != "":
		t.Fatalf("the child says: %s", failure)
	case lines < c.Lines || early:
		t.Fatalf("the child ended after %d lines of %d: %v", lines, c.Lines, err)
	}
}
