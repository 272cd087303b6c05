// Command cluster gives developers and tests a real Kubernetes, built from source: the programs themselves, a control
// plane, or a control plane with a node that runs pods. See README.md.
package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pergola-deploy/pergola/test/cluster/internal/cluster"
)

// source is what the programs are built from. The command carries it along, so that it works in every directory and
// builds what its name for it says.
//
//go:embed go.mod go.sum components pause
var source embed.FS

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	root := &cobra.Command{
		Use: "cluster", SilenceUsage: true, SilenceErrors: true,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(
		build(),
		command("path", "print the programs' directory", path),
		command("requirements", "print what this machine lacks for a node; nothing if it lacks nothing", requirements),
		up(),
		onCluster("down", "stop a cluster and remove its data", (*cluster.Cluster).Down),
		importImages(),
		image(),
		forward(),
	)
	err := root.ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// command is a command without flags and arguments.
func command(name, short string, run func(context.Context) error) *cobra.Command {
	return &cobra.Command{Use: name, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return run(cmd.Context())
	}}
}

func build() *cobra.Command {
	var controlPlane bool
	const short = "build the programs, once per version, and print their directory"
	cmd := command("build", short, func(ctx context.Context) error {
		programs, err := cluster.Locate(source)
		if err != nil {
			return err
		}
		if controlPlane {
			err = programs.BuildControlPlane(ctx, os.Stderr)
		} else {
			err = programs.Build(ctx, os.Stderr)
		}
		if err == nil {
			fmt.Println(programs.Dir())
		}
		return err
	})
	cmd.Flags().BoolVar(&controlPlane, "control-plane", false, "etcd, kube-apiserver and kubectl alone")
	return cmd
}

func path(context.Context) error {
	programs, err := cluster.Locate(source)
	if err != nil {
		return err
	}
	fmt.Println(programs.Dir())
	return nil
}

// requirements succeeds whatever is lacking, so that a failure is none of the machine's.
func requirements(context.Context) error {
	programs, err := cluster.Locate(source)
	if err != nil {
		return err
	}
	lack := programs.CheckComplete() // which no package mends, so it comes first
	if lack == nil {
		lack = cluster.CheckNodeRequirements()
	}
	if lack != nil {
		fmt.Println(lack)
	}
	return nil
}

// onCluster is a command that does something with a cluster.
func onCluster(name, short string, do func(*cluster.Cluster, context.Context) error) *cobra.Command {
	var dir string
	cmd := command(name, short, func(ctx context.Context) error {
		c, err := cluster.At(dir, os.Stderr)
		if err != nil {
			return err
		}
		return do(c, ctx)
	})
	addDir(cmd, &dir)
	return cmd
}

func up() *cobra.Command {
	var node bool
	const short = "start a cluster and write DIR/kubeconfig"
	cmd := onCluster("up", short, func(c *cluster.Cluster, ctx context.Context) error {
		programs, err := cluster.Locate(source)
		if err != nil {
			return err
		}
		if err := programs.CheckComplete(); err != nil {
			return err
		}
		if node {
			if err := cluster.CheckNodeRequirements(); err != nil {
				return err
			}
		}
		if err := programs.Build(ctx, os.Stderr); err != nil {
			return err
		}
		if err := c.Up(ctx, programs.Dir(), node); err != nil {
			return err
		}
		fmt.Printf("export KUBECONFIG=%s\n", c.Kubeconfig())
		return nil
	})
	cmd.Flags().BoolVar(&node, "node", false, "add a node that runs pods; needs root and a container runtime")
	return cmd
}

func importImages() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use: "import TAR...", Short: "load images into the node of a cluster", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, archives []string) error {
			c, err := cluster.At(dir, os.Stderr)
			if err != nil {
				return err
			}
			return c.Import(archives)
		},
	}
	addDir(cmd, &dir)
	return cmd
}

func image() *cobra.Command {
	var out, name, user string
	cmd := &cobra.Command{
		Use: "image BINARY", Short: "make an image of a static binary", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			binary, err := os.ReadFile(args[0])
			if err != nil {
				return fmt.Errorf("make image: %w", err)
			}
			content, err := cluster.Image(name, user, filepath.Base(args[0]), binary)
			if err != nil {
				return err
			}
			return os.WriteFile(out, content, 0o644)
		},
	}
	cmd.Flags().StringVar(&out, "out", "", "the archive to write")
	cmd.Flags().StringVar(&name, "name", "", "the image's full reference, such as localhost/app:1")
	cmd.Flags().StringVar(&user, "user", "", "who the container runs as, UID or UID:GID; root if not given")
	_, _ = cmd.MarkFlagRequired("out"), cmd.MarkFlagRequired("name") // they are there
	return cmd
}

// forward is not for people: up starts it.
func forward() *cobra.Command {
	run := func(cmd *cobra.Command, args []string) error {
		return cluster.Forward(cmd.Context(), args[0])
	}
	return &cobra.Command{Use: cluster.ForwardCommand, Hidden: true, Args: cobra.ExactArgs(1), RunE: run}
}

func addDir(cmd *cobra.Command, dir *string) {
	cmd.Flags().StringVar(dir, "dir", defaultDir(), "the directory of all the cluster's data")
}

// defaultDir is below the root of the repository around the working directory, or below the working directory if there
// is none.
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
