//go:build !nocloud

package awsbatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/batch/types"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"

	leatbatch "leat/worker/internal/batch"
)

// Limits of the logs that exits quote.
const (
	endEvents = 50 // usually one line each
	// maxLogs bounds the logs fetched: an error in the image ends all workers in the same way.
	maxLogs = 20
)

// exitError returns all that Batch reports about a failed job: the container's status, why it was
// stopped, and where its log is.
func exitError(j *types.JobDetail) error {
	var status string
	var reasons []string
	add := func(s *string) {
		if r := strings.TrimSpace(aws.ToString(s)); r != "" && !slices.Contains(reasons, r) {
			reasons = append(reasons, r)
		}
	}
	code := func(c *int32) {
		switch {
		case c == nil:
		case *c > 128 && *c < 128+65:
			status = fmt.Sprintf("ended with status %d, which shells return for signal %d", *c, *c-128)
		default:
			status = fmt.Sprintf("ended with status %d", *c)
		}
	}
	add(j.StatusReason)
	// Only the last attempt has the reason if the host is gone.
	if n := len(j.Attempts); n > 0 {
		add(j.Attempts[n-1].StatusReason)
		if c := j.Attempts[n-1].Container; c != nil {
			code(c.ExitCode)
			add(c.Reason)
		}
	}
	if c := j.Container; c != nil {
		code(c.ExitCode)
		add(c.Reason)
	}
	if status == "" {
		status = "failed without an exit status"
	}
	if len(reasons) > 0 {
		status += " (AWS Batch reports: " + strings.Join(reasons, "; ") + ")"
	}
	if group, stream := logOf(j); stream != "" {
		status += "; its log is " + stream + " in CloudWatch's " + group
	}
	return errors.New(status)
}

// logOf returns CloudWatch's group and stream of a job's log; "", "": none.
func logOf(j *types.JobDetail) (group, stream string) {
	if n := len(j.Attempts); n > 0 && j.Attempts[n-1].Container != nil {
		stream = aws.ToString(j.Attempts[n-1].Container.LogStreamName)
	}
	group = "/aws/batch/job"
	if c := j.Container; c != nil {
		if s := aws.ToString(c.LogStreamName); s != "" {
			stream = s
		}
		if l := c.LogConfiguration; l != nil {
			if g := l.Options["awslogs-group"]; g != "" {
				group = g
			}
		}
	}
	if stream == "" {
		return "", ""
	}
	return group, stream
}

// log fetches the end of a worker's output; "" if that fails.
func (f *fleet) log(ctx context.Context, j *types.JobDetail) string {
	group, stream := logOf(j)
	if stream == "" || f.logs == maxLogs {
		return ""
	}
	f.logs++
	ctx, stop := context.WithTimeout(ctx, f.k.times.grace)
	defer stop()
	out, err := f.c.getLogEvents(ctx, &cloudwatchlogs.GetLogEventsInput{LogGroupName: &group, LogStreamName: &stream,
		Limit: aws.Int32(endEvents), StartFromHead: aws.Bool(false)})
	if err != nil {
		f.o.Logger.Debug("worker log not readable", "group", group, "stream", stream, "error", err)
		return ""
	}
	var lines []string
	for _, e := range out.Events {
		lines = append(lines, strings.TrimRight(aws.ToString(e.Message), "\r\n"))
	}
	return leatbatch.Tail(strings.Join(lines, "\n"), leatbatch.EndOfLog)
}
