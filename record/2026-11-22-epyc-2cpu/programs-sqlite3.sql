create table t(a integer, b text, c real);
insert into t with recursive n(i) as (select 1 union all select i+1 from n where i<300000) select (i*7919)%1000003, 'row number '||i||hex((i*31)%65537), i*0.5 from n;
create index ti on t(b);
select count(*), sum(a) from (select a from t order by b desc, c limit 200000);
select substr(b,1,12) k, count(*) from t group by k order by 2 desc, 1 limit 3;
