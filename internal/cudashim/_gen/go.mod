module gen

go 1.26.0
