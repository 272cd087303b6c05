package items

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/contract"
)

func newPauseCommand(version string) *cobra.Command {
	return newPausingCommand(version, true, &cobra.Command{
		Use:   "pause (ITEM... | -l SELECTOR)",
		Short: "Keep DeployItems from new jobs, where there is no Landscaper",
		Long: `Keep DeployItems from new jobs: none starts after a change of the item, after a failure or by a schedule. A
running job ends, a deletion works, and so do the commands that start a job. Only hosts with --standalone heed it.

The request is the annotation ` + contract.PausedAnnotation + `.`,
		Example: `  pergola items pause my-item
  pergola items pause -l app=shop`,
	})
}

func newResumeCommand(version string) *cobra.Command {
	return newPausingCommand(version, false, &cobra.Command{
		Use:   "resume (ITEM... | -l SELECTOR)",
		Short: "Let DeployItems have jobs again after a pause",
		Long: `Let DeployItems have jobs again after a pause. A change of the item during the pause, and a next try that is
due, start a job at once.`,
		Example: `  pergola items resume my-item`,
	})
}

// newPausingCommand returns a command that sets the annotation of a pause, or removes it.
func newPausingCommand(version string, pause bool, cmd *cobra.Command) *cobra.Command {
	chosen := newSelection(version)
	cmd.Args = chosen.check
	chosen.addItemsTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		w, keys, err := chosen.find(cmd, names, false)
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := setPaused(cmd.Context(), w.Cluster, key.Name, pause); err != nil {
				return fmt.Errorf("%s DeployItem %q: %w", cmd.Name(), key, err)
			}
			if err := cli.PrintText(w.stdout, w.nameOf(key)+": "+cmd.Name()+"d\n"); err != nil {
				return err
			}
		}
		return nil
	}
	return cmd
}

// setPaused sets the annotation of a pause, or removes it.
func setPaused(ctx context.Context, c *usercluster.Cluster, name string, pause bool) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		item, err := c.DeployItem(ctx, name)
		if err != nil || contract.IsPaused(item) == pause {
			return err
		}
		before := item.DeepCopy()
		contract.SetPaused(item, pause)
		return c.Patch(ctx, item, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
}
