// Command cluster gives developers and tests a real Kubernetes, built from
// source: the programs themselves, a control plane, or a control plane with a
// node that runs pods. See README.md.
package main

import (
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/pergola-deploy/pergola/test/cluster/internal/binaries"
	"github.com/pergola-deploy/pergola/test/cluster/internal/cluster"
	"github.com/pergola-deploy/pergola/test/cluster/internal/image"
)

// source is what the programs are built from. The command carries it along, so
// that it works in every directory and builds what its name for it says.
//
//go:embed go.mod go.sum components pause
var source embed.FS

const usage = `usage: cluster COMMAND [FLAG...]

  build                     build the programs, once per version, and print their directory
  path                      print the programs' directory
  requirements              print what this machine lacks for a node; nothing if it lacks nothing
  up [--dir DIR] [--node]   start a cluster and write DIR/kubeconfig
  down [--dir DIR]          stop it and remove its data
  import [--dir DIR] TAR... load images into the node of a cluster
  image --out TAR --name NAME [--user USER] BINARY
                            make an image of a static binary
  kill-kubelet [--dir DIR]  end the kubelet of a cluster's node as a crash does
  start-kubelet [--dir DIR] start it again

DIR is .cluster at the root of the repository unless given.
`

// commands maps each sub-command to its implementation, which gets the
// arguments after its name.
var commands = map[string]func(context.Context, []string) error{
	"build":                runBuild,
	"path":                 runPath,
	"requirements":         runRequirements,
	"up":                   runUp,
	"down":                 runDown,
	"import":               runImport,
	"image":                runImage,
	"kill-kubelet":         runKillKubelet,
	"start-kubelet":        runStartKubelet,
	cluster.ForwardCommand: runForward,
}

func main() {
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := commands[os.Args[1]](ctx, os.Args[2:])
	stop()
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func runBuild(ctx context.Context, args []string) error {
	if err := parse(flag.NewFlagSet("build", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	dir, err := build(ctx)
	if err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}

func runPath(_ context.Context, args []string) error {
	if err := parse(flag.NewFlagSet("path", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	programs, err := binaries.Locate(source)
	if err != nil {
		return err
	}
	fmt.Println(programs.Dir())
	return nil
}

// runRequirements succeeds whatever is lacking, so that a failure is none of the machine's.
func runRequirements(_ context.Context, args []string) error {
	if err := parse(flag.NewFlagSet("requirements", flag.ContinueOnError), args, 0); err != nil {
		return err
	}
	if lack := cluster.CheckNodeRequirements(); lack != nil {
		fmt.Println(lack)
	}
	return nil
}

func runUp(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("up", flag.ContinueOnError)
	dir := dirFlag(flags)
	node := flags.Bool("node", false, "add a node that runs pods; needs root and a container runtime")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	if *node {
		if err := cluster.CheckNodeRequirements(); err != nil {
			return err
		}
	}
	bin, err := build(ctx)
	if err != nil {
		return err
	}
	c, err := cluster.At(*dir, os.Stderr)
	if err != nil {
		return err
	}
	if err := c.Up(ctx, cluster.Options{Programs: bin, Node: *node}); err != nil {
		return err
	}
	fmt.Printf("export KUBECONFIG=%s\n", c.Kubeconfig())
	return nil
}

func runDown(ctx context.Context, args []string) error {
	return runOn(ctx, "down", args, (*cluster.Cluster).Down)
}

func runKillKubelet(ctx context.Context, args []string) error {
	return runOn(ctx, "kill-kubelet", args, (*cluster.Cluster).KillKubelet)
}

func runStartKubelet(ctx context.Context, args []string) error {
	return runOn(ctx, "start-kubelet", args, (*cluster.Cluster).StartKubelet)
}

// runOn does something with a cluster that needs no more arguments.
func runOn(ctx context.Context, name string, args []string, do func(*cluster.Cluster, context.Context) error) error {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	dir := dirFlag(flags)
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	c, err := cluster.At(*dir, os.Stderr)
	if err != nil {
		return err
	}
	return do(c, ctx)
}

func runImport(_ context.Context, args []string) error {
	flags := flag.NewFlagSet("import", flag.ContinueOnError)
	dir := dirFlag(flags)
	if err := parse(flags, args, -1); err != nil {
		return err
	}
	c, err := cluster.At(*dir, os.Stderr)
	if err != nil {
		return err
	}
	return c.Import(flags.Args())
}

func runImage(_ context.Context, args []string) (err error) {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	out := flags.String("out", "", "the archive to write")
	name := flags.String("name", "", "the image's full reference, such as localhost/app:1")
	user := flags.String("user", "", "who the container runs as, UID or UID:GID; root if not given")
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	if *out == "" || *name == "" {
		return errors.New("make image: --out and --name are needed")
	}
	binary, err := os.ReadFile(flags.Arg(0))
	if err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	file, err := os.Create(*out)
	if err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return image.Write(file, image.Image{
		Name:    *name,
		User:    *user,
		Command: filepath.Base(flags.Arg(0)),
		Binary:  binary,
	})
}

// runForward is not for people: Up starts it.
func runForward(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(cluster.ForwardCommand, flag.ContinueOnError)
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	return cluster.Forward(ctx, flags.Arg(0))
}

func build(ctx context.Context) (dir string, err error) {
	programs, err := binaries.Locate(source)
	if err != nil {
		return "", err
	}
	return programs.Dir(), programs.Build(ctx, os.Stderr)
}

// parse reads the flags and checks the number of arguments after them; -1
// stands for one or more.
func parse(flags *flag.FlagSet, args []string, arguments int) error {
	if err := flags.Parse(args); err != nil {
		return flag.ErrHelp // the flag set has said what is wrong
	}
	if n := flags.NArg(); n != arguments && (arguments >= 0 || n == 0) {
		fmt.Fprint(os.Stderr, usage)
		return flag.ErrHelp
	}
	return nil
}

func dirFlag(flags *flag.FlagSet) *string {
	return flags.String("dir", defaultDir(), "the directory of all the cluster's data")
}

// defaultDir is below the root of the repository around the working directory,
// or below the working directory if there is none.
func defaultDir() string {
	const name = ".cluster"
	working, err := os.Getwd()
	if err != nil {
		return name
	}
	for dir := working; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, ".git")); err == nil {
			return filepath.Join(dir, name)
		}
		if dir == filepath.Dir(dir) {
			return name
		}
	}
}
