package plan

import (
	"context"
	"fmt"
	"runtime"
	"slices"

	"leat/apply/internal/jobspec"
	"leat/apply/internal/output"
	"leat/apply/internal/resolve"
	"leat/apply/outcome"
	"leat/block"
	"leat/internal/worker/coordinator"
)

// New plans a job. It reads the spools of an earlier run, and writes nothing.
func New(ctx context.Context, job *resolve.Job) (*Plan, error) {
	values := job.Values
	earlier, note, err := findEarlier(job)
	if err != nil {
		return nil, err
	}
	p := &Plan{Plan: outcome.Plan{Grid: job.Grid, BudgetBytes: values.BudgetBytes, Notes: slices.Clone(job.Notes),
		Warnings: job.Warnings}, Earlier: earlier, SharedDir: sharedDir(&values.Concurrency, job.Outputs)}
	if note != "" {
		p.note(outcome.Note{Text: note})
	}
	width, height := values.Controls.WindowWidth, values.Controls.WindowHeight
	if width == 0 && earlier != nil {
		width, height = earlier.blockSize()
	}
	if err := p.chooseModes(ctx, job, block.Plan{Width: p.Grid.Width, Height: p.Grid.Height, WindowWidth: modeSide,
		WindowHeight: modeSide, Overlap: job.Values.Controls.Overlap}); err != nil {
		return nil, err
	}
	if err := p.size(job, width, height); err != nil {
		return nil, err
	}
	if err := p.chooseModes(ctx, job, p.Blocks); err != nil {
		return nil, err
	}
	p.describe(job)
	if err := p.addVectors(job); err != nil {
		return nil, err
	}
	if earlier != nil {
		return p, earlier.check(job, p)
	}
	p.Replaced, err = findReplaced(ctx, job, p)
	return p, err
}

// size chooses the size of blocks, unless it is given, and the number of buffers within the memory
// budget.
func (p *Plan) size(job *resolve.Job, width, height int) error {
	in, outs, c := job.Inputs, job.Outputs, &job.Values.Concurrency
	p.setWorkers(c)
	for _, f := range in.Files {
		if f.Mode == jobspec.ReadPieces {
			p.AheadBytes = AheadBytes(p.BudgetBytes)
		}
	}
	alignW, alignH := alignment(outs, p.Grid)
	z := &sizing{in: in, outs: outs, variables: job.Variables, programs: job.Programs,
		params: job.Values.Function.ParamsBytes, paramsGDAL: job.Values.Function.ParamsGDAL,
		merging: job.Values.Function.MergeBytes, pixel: job.Values.Function.PixelBytes, plan: p,
		blockPixels: job.Values.Function.BlockPixels, loading: job.Values.Function.Loading != nil,
		overlap: job.Values.Controls.Overlap, grid: p.Grid, here: p.Workers, slots: 1}
	if !c.OneBlockPerJob {
		z.needs = job.Values.Function.Needs
	}
	if c.On != nil {
		z.slots = SlotsEach(p.Workers)
		if z.here = min(p.Workers, runtime.GOMAXPROCS(0)); c.On.Capabilities().Local {
			z.here, z.processes = p.Workers*z.slots, p.Workers
		}
		if p.Shares = z.here; z.processes > 0 {
			p.Shares = z.processes
		}
	}
	if p.WorkersRead {
		p.GDALBytes = in.GDALCacheBytes(p.BudgetBytes/int64(max(1, p.Shares)), z.slots)
	} else {
		p.GDALBytes = in.GDALCacheBytes(p.BudgetBytes, p.Readers)
	}
	if width > 0 || height > 0 {
		w, h := output.RoundUp(width, alignW), output.RoundUp(height, alignH)
		if w != width || h != height {
			p.note(outcome.Note{
				Text: fmt.Sprintf("window %dx%d rounded up to %dx%d, whole output tiles", width, height, w, h)})
		}
		if !z.fits(w, h) {
			return z.tooLittle(w, h)
		}
	} else if err := z.choose(alignW, alignH); err != nil {
		return err
	}
	p.skip(job.Values.Function.Needs)
	if c.OneBlockPerJob {
		p.Workers = max(1, p.ComputedBlocks())
	} else if c.On != nil {
		if err := coordinator.CheckDescriptors(c.On.Capabilities(), min(p.Workers, p.ComputedBlocks())); err != nil {
			return err
		}
	}
	layout, note := output.LayoutMemory(outs, p.Grid, p.BudgetBytes)
	if note.Text != "" {
		p.note(note)
	}
	p.MemoryBytes = max(p.MemoryBytes, layout)
	return nil
}
