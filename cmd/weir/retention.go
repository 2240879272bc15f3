package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// retention says for how long records are kept. In each list the first rule that
// matches counts; what no rule matches is kept for ever.
type retention struct {
	feedback     []feedbackRule
	trajectories []trajectoryRule

	responseDays  int   // 0: for ever
	responseBytes int64 // that a project may keep; 0: any number
	batchDays     int   // the same of files and batches
	batchBytes    int64

	sinks bool // somebody is to be told of every change
}

// feedbackRule keeps the feedback of some projects for a number of days.
type feedbackRule struct {
	projects string // team/project, team/* or *
	days     int
}

func (r *feedbackRule) covers(project string) bool { return matches(r.projects, project) }

// trajectoryRule keeps the trajectories of some models for a number of days.
type trajectoryRule struct {
	models string // a name, which may end in *; of a created model its id, its name, or team/project/name
	split  string // "" covers every split
	days   int
}

func (r *trajectoryRule) covers(names []string, split string) bool {
	return (r.split == "" || r.split == split) && slices.ContainsFunc(names, func(name string) bool { return matches(r.models, name) })
}

// matches compares a name with a pattern, in which a * at the end stands for any
// text.
func matches(pattern, name string) bool {
	if start, any := strings.CutSuffix(pattern, "*"); any {
		return strings.HasPrefix(name, start)
	}
	return pattern == name
}

const maxRetentionDays = 36500

// retention reads the rules of --feedback-retention and --trajectory-retention.
func (o *recordOptions) retention() (rules retention, err error) {
	if rules.feedback, err = parseFeedbackRules(o.feedbackRetention); err != nil {
		return rules, err
	}
	if rules.trajectories, err = parseTrajectoryRules(o.trajectoryRetention); err != nil {
		return rules, err
	}
	if o.responseDays < 0 || o.responseDays > maxRetentionDays {
		return rules, fmt.Errorf("--response-retention %d: want a number of days from 1 to %d, or 0 to keep responses for ever", o.responseDays, maxRetentionDays)
	}
	if o.batchDays < 0 || o.batchDays > maxRetentionDays {
		return rules, fmt.Errorf("--batch-retention %d: want a number of days from 1 to %d, or 0 to keep files and batches for ever", o.batchDays, maxRetentionDays)
	}
	rules.sinks = len(o.sinks.addresses) > 0
	rules.batchDays, rules.batchBytes = o.batchDays, int64(o.batchQuota)
	rules.responseDays, rules.responseBytes = o.responseDays, int64(o.responseQuota)
	return rules, nil
}

// parseFeedbackRules reads rules such as "team/project=30".
func parseFeedbackRules(list []string) (rules []feedbackRule, err error) {
	for _, s := range list {
		pattern, days, ok := strings.Cut(s, "=")
		n, err := strconv.Atoi(days)
		if !ok || err != nil || n < 1 || n > maxRetentionDays || pattern != "*" && !strings.Contains(pattern, "/") {
			return nil, fmt.Errorf("--feedback-retention %s: want PROJECT=DAYS, such as acme/support=90, acme/*=30 or *=365", s)
		}
		rules = append(rules, feedbackRule{pattern, n})
	}
	return rules, nil
}

// parseTrajectoryRules reads rules such as "agent=30" and "agent:val=7". The name of
// a model may contain = and : itself, so the last of each counts.
func parseTrajectoryRules(list []string) (rules []trajectoryRule, err error) {
	for _, s := range list {
		at := strings.LastIndexByte(s, '=')
		name, days := s[:max(at, 0)], s[at+1:]
		r := trajectoryRule{models: name}
		if colon := strings.LastIndexByte(name, ':'); colon >= 0 {
			r.models, r.split = name[:colon], name[colon+1:]
		}
		r.days, err = strconv.Atoi(days)
		if err != nil || r.days < 1 || r.days > maxRetentionDays || r.models == "" || strings.HasSuffix(name, ":") {
			return nil, fmt.Errorf("--trajectory-retention %s: want MODEL=DAYS or MODEL:SPLIT=DAYS, such as agent=90, agent:val=7 or *=365", s)
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// expire deletes the records that are older than the rules allow.
func (r *records) expire(ctx context.Context, rules retention, log *slog.Logger) error {
	return errors.Join(
		expireProjects(ctx, "feedback", r.book, rules.feedback, log),
		expireProjects(ctx, "calls", r.calls, rules.feedback, log),
		expireProjects(ctx, "objects, tables and files", r.objects, rules.feedback, log),
		r.expireQueues(ctx, rules.feedback, log),
		r.expireTrajectories(ctx, rules.trajectories, log),
		r.expireResponses(ctx, log),
		r.expireBatches(ctx, log),
	)
}

// expireResponses deletes the responses that are too old.
func (r *records) expireResponses(ctx context.Context, log *slog.Logger) error {
	select {
	case <-r.responsesDB.Ready():
	default:
		return nil // the database has not been needed yet, and is not opened for this
	}
	n, err := r.responses.Expire(ctx)
	if n > 0 {
		log.Info("deleted responses that were too old", "responses", n)
	}
	return err
}

// expireBatches deletes the files and batches that are too old.
func (r *records) expireBatches(ctx context.Context, log *slog.Logger) error {
	if !r.batchesDB.Used() {
		return nil
	}
	n, err := r.batches.Expire(ctx, time.Now())
	if n > 0 {
		log.Info("deleted files and batches that were too old", "number", n)
	}
	return err
}

// expireQueues deletes the items of annotation queues, and the queues, with the rules of
// feedback, and finishes deletions that a crash has interrupted.
func (r *records) expireQueues(ctx context.Context, rules []feedbackRule, log *slog.Logger) error {
	select {
	case <-r.traces.Ready():
	default:
		return nil // the database has not been needed yet, and is not opened for this
	}
	return errors.Join(r.queues.Sweep(ctx), expireProjects(ctx, "items of annotation queues", r.queues, rules, log))
}

// projectRecords are records that are kept by projects.
type projectRecords interface {
	Projects(f func(project string)) error
	Expire(ctx context.Context, project string, before int64) (n int, err error)
}

func expireProjects(ctx context.Context, what string, in projectRecords, rules []feedbackRule, log *slog.Logger) error {
	if len(rules) == 0 {
		return nil
	}
	var projects []string
	if err := in.Projects(func(p string) { projects = append(projects, p) }); err != nil {
		return err
	}
	for _, p := range projects {
		for _, rule := range rules {
			if !rule.covers(p) {
				continue
			}
			n, err := in.Expire(ctx, p, time.Now().AddDate(0, 0, -rule.days).UnixMilli())
			if err != nil {
				return err
			}
			if n > 0 {
				log.Info("deleted what was too old", "kind", what, "project", p, "records", n, "days", rule.days)
			}
			break
		}
	}
	return nil
}

func (r *records) expireTrajectories(ctx context.Context, rules []trajectoryRule, log *slog.Logger) error {
	if len(rules) == 0 {
		select {
		case <-r.archive.Ready():
		default:
			return nil // the database has not been needed yet, and is not opened for this
		}
	} else {
		now := time.Now()
		n, err := r.archive.Expire(ctx, func(names []string, split string) time.Time {
			for _, rule := range rules {
				if rule.covers(names, split) {
					return now.AddDate(0, 0, -rule.days)
				}
			}
			return time.Time{}
		})
		if err != nil {
			return err
		}
		if n > 0 {
			log.Info("deleted trajectories that were too old", "batches", n)
		}
	}
	_, err := r.archive.PruneCalls(ctx)
	return err
}
